"""The example for Ray, with two workers."""

import importlib.util
import shutil
from concurrent.futures import ProcessPoolExecutor

import onnx2ncnn
import pytest
from conftest import FIXTURES, REPOSITORY, model

ray = pytest.importorskip("ray")


@pytest.fixture
def example():
    spec = importlib.util.spec_from_file_location("ray_convert", REPOSITORY / "examples" / "ray_convert.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def models(tmp_path):
    folder = tmp_path / "models"
    chosen = [path.parent for family in ("network", "fuse") for path in sorted(FIXTURES.glob(f"{family}/*/model.onnx"))]
    for source in chosen[:71]:
        place = folder / source.parent.name
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / "model.onnx", place / f"{source.name}.onnx")
    shutil.copy(model("refused/unknown_operator"), folder / "bad.onnx")
    return folder


def test_rows_are_those_of_a_batch(example, models, tmp_path):
    import pyarrow.parquet

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        example.main(models, tmp_path / "ray", 2)
    finally:
        ray.shutdown()
    rows = pyarrow.parquet.read_table(tmp_path / "ray" / "results").to_pylist()
    batch = onnx2ncnn.convert_many(models, tmp_path / "batch")
    assert len(rows) == len(batch) > 40
    by_model = {row["model"]: row for row in rows}
    for result in batch:
        row = by_model[str(models / f"{result.name}.onnx")]
        assert row["status"] == result.status
        if result.status == "converted":
            for ending in ("param", "bin"):
                place = tmp_path / "ray" / f"{result.name}.ncnn.{ending}"
                assert place.read_bytes() == getattr(result, ending).read_bytes()
    bad = by_model[str(models / "bad.onnx")]
    assert "unknown operator Shrug" in bad["diagnostics"][0]


def test_other_schedulers_run_the_same_function(example, models, tmp_path):
    rows = list(example.find_rows(models, tmp_path / "out"))[:4]
    with ProcessPoolExecutor(2) as pool:
        # The module of the example is not installed, so it is sent by its name.
        done = list(pool.map(_convert, rows))
    assert [row["status"] for row in done] == [example.convert_row(row)["status"] for row in rows]


def _convert(row):
    spec = importlib.util.spec_from_file_location("ray_convert", REPOSITORY / "examples" / "ray_convert.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.convert_row(row)
