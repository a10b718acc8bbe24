"""Installs by the manifests, from a server of the archives on this machine: test.py DIST MANIFESTS."""

from __future__ import annotations

import functools
import hashlib
import http.server
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import tomllib
import urllib.request
import zipfile

import yaml

DIST, MANIFESTS = map(pathlib.Path, sys.argv[1:])


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def texts() -> dict[str, str]:
    """The manifests, with the address of the server."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=DIST))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return {file.name: file.read_text().replace("@PORT@", str(server.server_port)) for file in MANIFESTS.iterdir()}


def install(script: str) -> tuple[int, str]:
    """The exit code and the messages of the script, and of the command that it installs."""
    with tempfile.TemporaryDirectory() as room:
        done = subprocess.run(["sh"], input=script, text=True, capture_output=True, env=os.environ | {"BIN": f"{room}/new/bin"})
        names = sorted(path.name for path in pathlib.Path(room).rglob("*"))
        assert names == (["bin", "new", "onnx2ncnn"] if done.returncode == 0 else []), names
        return done.returncode, done.stdout + done.stderr


def test_script(script: str) -> None:
    code, said = install(script)
    assert code == 0 and said.startswith("onnx2ncnn "), said
    other = script.replace("sum=", "sum=0")
    code, said = install(other)
    assert code == 1 and "another checksum" in said, said


def test_zip(url: str, checksum: str, program: str) -> None:
    with urllib.request.urlopen(url) as answer:
        archive = answer.read()
    assert hashlib.sha256(archive).hexdigest() == checksum.lower()
    assert program in zipfile.ZipFile(io.BytesIO(archive)).namelist(), program


def test_formula(formula: str) -> None:
    """Evaluates the formula with what Homebrew gives it."""
    room = MANIFESTS.parent / "homebrew.rb"
    room.write_text(formula)
    subprocess.run(["ruby", str(pathlib.Path(__file__).with_name("homebrew.rb")), str(room)], check=True)


def test_binstall() -> None:
    """The addresses of `cargo binstall` name archives."""
    package = tomllib.loads(pathlib.Path("Cargo.toml").read_text())
    binstall = package["package"]["metadata"]["binstall"]
    version = package["workspace"]["package"]["version"]
    archives = [file.name for file in DIST.iterdir() if file.name.endswith((".tar.gz", ".zip")) and "-page" not in file.name]
    for archive in archives:
        target = archive.removeprefix(f"onnx2ncnn-{version}-").removesuffix(".tar.gz").removesuffix(".zip")
        kind = binstall.get("overrides", {}).get(target, binstall)["pkg-fmt"]
        url = binstall["pkg-url"]
        for name, value in {"name": "onnx2ncnn", "version": version, "target": target, "archive-suffix": {"tgz": ".tar.gz", "zip": ".zip"}[kind]}.items():
            url = url.replace(f"{{ {name} }}", value)
        assert url.rsplit("/", 1)[1] == archive, url


manifests = texts()
test_script(manifests["install.sh"])
test_formula(manifests["onnx2ncnn.rb"])
test_binstall()
source = yaml.safe_load(manifests["recipe.yaml"])["source"]
assert hashlib.sha256((DIST / source["url"].rsplit("/", 1)[1]).read_bytes()).hexdigest() == source["sha256"], source
if "onnx2ncnn.json" in manifests:
    scoop = json.loads(manifests["onnx2ncnn.json"])
    archive = scoop["architecture"]["64bit"]
    test_zip(archive["url"], archive["hash"], f"{archive['extract_dir']}/{scoop['bin']}")
    winget = yaml.safe_load(manifests["onnx2ncnn.yaml"])
    [archive] = winget["Installers"]
    [program] = archive["NestedInstallerFiles"]
    test_zip(archive["InstallerUrl"], archive["InstallerSha256"], program["RelativeFilePath"].replace("\\", "/"))
print(f"installed by {', '.join(sorted(manifests))}", file=sys.stderr)
