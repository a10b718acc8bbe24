"""Converts every model below a folder with Ray Data.

usage: python ray_convert.py MODELS OUT [WORKERS]

Each model is a row and each row a task, so the models are spread over the cluster. A task reads and writes the weights piece by
piece, so its memory does not grow with the model. A model that is refused is a row with its diagnostics, and stops no other.
MODELS and OUT lie on a file system that all machines share. The rows are written to OUT/results as Parquet.

`convert_row` is a plain function: `concurrent.futures` and Dask run it unchanged.
"""

import sys
from pathlib import Path

import onnx2ncnn


def convert_row(row, **options):
    """Converts the model of a row, and returns the row with the result."""
    try:
        net = onnx2ncnn.convert(row["model"], **options)
        Path(row["param"]).parent.mkdir(parents=True, exist_ok=True)
        net.save(row["param"], row["bin"])
    except onnx2ncnn.Refused as refused:
        return {**row, "status": "refused", "diagnostics": [str(diagnostic) for diagnostic in refused.diagnostics]}
    except (OSError, ValueError) as error:
        return {**row, "status": "failed", "diagnostics": [str(error)]}
    return {**row, "status": "converted", "diagnostics": []}


def find_rows(models, out):
    """A row for each model: models/a/b.onnx becomes out/a/b.ncnn.param and .bin."""
    for path in sorted(models.rglob("*.onnx")):
        place = out / path.relative_to(models).parent / path.stem
        yield {"model": str(path), "param": f"{place}.ncnn.param", "bin": f"{place}.ncnn.bin"}


def main(models, out, workers=None):
    import ray

    rows = list(find_rows(Path(models).resolve(), Path(out).resolve()))
    # A block for each model, so that one large model does not keep others waiting.
    table = ray.data.from_items(rows, override_num_blocks=len(rows))
    table = table.map(convert_row, num_cpus=1, concurrency=workers and int(workers)).materialize()
    table.write_parquet(str(Path(out).resolve() / "results"))
    for status, count in sorted((row["status"], row["count()"]) for row in table.groupby("status").count().take_all()):
        print(f"{count} {status}")


if __name__ == "__main__":
    main(*sys.argv[1:])
