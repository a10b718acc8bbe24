"""Conversion of many models by the command `onnx2ncnn batch`."""

from __future__ import annotations

import errno
import glob
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _options
from .__main__ import command
from ._refused import Diagnostic, diagnostics

# The exit codes of a batch that was run to its end.
_CODES = (0, 1, 2, 3, 4)


@dataclass(frozen=True)
class Converted:
    """The result for a model.

    Attributes:
        name: The name of the results, relative to the folder of results, without endings.
        status: `converted`; `up to date`, of an earlier call; `refused`; `failed`, if a file or an option is at fault; `broken off`,
            if the conversion was killed; or `differs`, if `verify` finds that the net differs from the model.
        param: The path of the `.param` file, if there is one.
        bin: The path of the `.bin` file, if there is one.
        diagnostics: The reasons why the model was not converted.
        output: The output of the command for a model that was not converted.
        layers: The number of layers of a converted model.
        bytes: The bytes of both files of a converted model.
        seconds: The time that the conversion took.
    """

    name: str
    status: str
    param: Path | None
    bin: Path | None
    diagnostics: list[Diagnostic]
    output: str
    layers: int | None
    bytes: int | None
    seconds: float | None


@_options.named
def convert_many(
    models: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    workers: int | None = None,
    base: str | os.PathLike[str] | None = None,
    force: bool = False,
    progress: bool = True,
    **options: Any,
) -> list[Converted]:
    """Converts many models, several at a time, each in a process of its own.

    This is the command `onnx2ncnn batch`: models whose results are up to date are skipped, and a model that is refused, or killed for
    lack of memory, stops no other.

    Args:
        models: A folder, a pattern such as `"models/**/*.onnx"`, or paths of models.
        out: The folder of the results: `a/b.onnx` becomes `out/a/b.ncnn.param` and `.bin`.
        workers: The number of models that are converted at a time; by default that of the processors.
        base: The folder whose subfolders are recreated in `out`; by default the folder of `models`, the fixed part of the pattern, or the
            current folder.
        force: Also convert models that are up to date.
        progress: Show a progress bar, if tqdm is installed.
        options: The options of `convert`, for all models.

    Raises:
        ValueError: An option is invalid, or two models have the same results.
        OSError: The folder of results cannot be written, or no process can be started.
        RuntimeError: The command was killed. A further call takes its work up.
    """
    import subprocess
    import tempfile

    if options.get("keep_onnx"):
        raise ValueError("convert_many keeps no simplified models")
    if workers is not None and workers < 1:
        raise ValueError(f"workers is a number from 1, not {workers}")
    if isinstance(models, (str, os.PathLike)) and not glob.has_magic(os.fsdecode(models)) and not os.path.exists(models):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(models))
    with tempfile.TemporaryDirectory() as folder:
        words = _options.words(_options.normalized(**options), Path(folder))
        if workers is not None:
            words.append(f"--jobs={workers}")
        if base is not None:
            words.append(f"--base={os.fsdecode(base)}")
        if force:
            words.append("--force")
        one, paths = "-", []
        if isinstance(models, (str, os.PathLike)):
            one = os.fsdecode(models)
        else:
            paths = [_line(path) for path in models]
            if not paths:
                return []
        words += ["--json-lines", f"--out={os.fsdecode(out)}", "--", one]
        run = [*command(), "batch", *words]
        # Notebooks ask programs for colours.
        environment = {name: value for name, value in os.environ.items() if name not in ("CLICOLOR_FORCE", "FORCE_COLOR")}
        with tempfile.TemporaryFile() as listed, tempfile.TemporaryFile() as said:
            listed.write(b"".join(paths))
            listed.seek(0)
            with subprocess.Popen(run, env=environment, stdin=listed, stdout=subprocess.PIPE, stderr=said) as process:
                rows = [_row(json.loads(line), Path(out)) for line in _counted(process.stdout, len(paths) or None, progress)]
            said.seek(0)
            text = said.read().decode("utf8", "replace").strip()
    if process.returncode not in _CODES:
        raise RuntimeError(f"the command ended with code {process.returncode} after {len(rows)} models: {text}")
    if process.returncode and not rows:
        raise (OSError if "i/o error" in text else ValueError)(text)
    return rows


def _line(path: str | os.PathLike[str]) -> bytes:
    """The line of a model in a list."""
    line = os.fsencode(path)
    if b"\n" in line:
        raise ValueError(f"a path has a line feed: {line!r}")
    return line + b"\n"


def _counted(lines: Any, total: int | None, progress: bool) -> Iterable[bytes]:
    if not progress:
        return lines
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return lines
    return tqdm(lines, total=total, unit="model")


def _row(row: dict[str, Any], out: Path) -> Converted:
    exists = row["status"] in ("converted", "up to date")
    place = out / row["name"]
    return Converted(
        name=row["name"],
        status=row["status"],
        param=place.with_name(f"{place.name}.ncnn.param") if exists else None,
        bin=place.with_name(f"{place.name}.ncnn.bin") if exists else None,
        diagnostics=diagnostics(row["diagnostics"]),
        output=row["output"].strip(),
        layers=row["layers"],
        bytes=row["bytes"],
        seconds=row["seconds"],
    )
