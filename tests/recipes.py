"""Runs the sessions in docs/*.md, which begin with `$ `, and compares what they print with what is shown.

usage: recipes.py CONVERTER

The commands of a page run in one folder, with an environment of Python of their own. `$ cat FILE` shows a file that the page writes, and `...` stands
for the rest of a line. Blocks after `<!-- run -->` are commands whose results are not shown; on their pages, blocks after a line with only a name of
a file are that file.
"""

import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


RUN = "<!-- run -->"
FILE = re.compile(r"`([\w./]+)`:")


def blocks(text):
    """Commands without what they print, and files, of the blocks with a marker."""
    found, marker = [], None
    for line in text.splitlines():
        if line.startswith("    "):
            if marker == RUN:
                found.append((line[4:], None))
            elif marker:
                found[-1][1].append(line[4:])
        elif line == RUN or FILE.fullmatch(line):
            marker = line
            if line != RUN:
                found.append(("cat " + FILE.fullmatch(line)[1], []))
        elif line:
            marker = None
        elif marker and marker != RUN and found[-1][1]:
            found[-1][1].append("")
    return [(command, "\n".join(shown) if shown else None) for command, shown in found]


def sessions(text):
    """Commands with what they print; `None` is anything."""
    if RUN in text:
        return blocks(text)
    found, is_inside = [], False
    for line in text.splitlines():
        is_inside = line.startswith("    $ ") or is_inside and (not line or line.startswith("    "))
        line = line[4:]
        if not is_inside:
            continue
        if line.startswith("$ "):
            found.append([line[2:], []])
        elif line.startswith("> ") and not found[-1][1]:
            found[-1][0] += "\n" + line[2:]
        else:
            found[-1][1].append(line)
    return [(command, "\n".join(shown).strip("\n")) for command, shown in found]


def run(page, converter):
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder) / "environment"
        venv.create(environment, with_pip=True)
        (environment / "bin/onnx2ncnn").symlink_to(converter)
        path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
        variables = os.environ | {"PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        commands = sessions(page.read_text())
        for command, shown in commands:
            if command.startswith("cat "):
                (Path(folder) / command.removeprefix("cat ")).write_text(shown + "\n")
                continue
            result = subprocess.run(command, shell=True, cwd=folder, env=variables, capture_output=True, text=True)
            printed = result.stdout.strip("\n")
            is_same = shown is None or re.fullmatch(re.escape(shown).replace(r"\.\.\.", ".*"), printed)
            if result.returncode != 0 or not is_same:
                sys.exit(f"{page.name}: {command}\n{printed}\n{result.stderr}\nis not\n{shown}")
        return len(commands)


def main():
    converter = Path(sys.argv[1]).resolve()
    pages = [page for page in sorted((ROOT / "docs").glob("*.md")) if "\n    $ " in page.read_text() or RUN in page.read_text()]
    print(f"{sum(run(page, converter) for page in pages)} commands on {len(pages)} pages print what is shown")


if __name__ == "__main__":
    main()
