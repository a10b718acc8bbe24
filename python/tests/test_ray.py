"""The example for Ray, with two workers."""

import filecmp
import importlib.util
import os
import shutil
from concurrent.futures import ProcessPoolExecutor

import conftest
import onnx2ncnn
import pytest
from conftest import FIXTURES, REPOSITORY, model, needs_proc, peak

ray = pytest.importorskip("ray")


@pytest.fixture
def example():
    spec = importlib.util.spec_from_file_location("ray_convert", REPOSITORY / "examples" / "ray_convert.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def models(tmp_path):
    """A folder of models, one of which is refused: those of the folder ONNX2NCNN_MODELS, or fixtures."""
    folder = tmp_path / "models"
    given = os.environ.get("ONNX2NCNN_MODELS")
    if given:
        # Models and their external data stay together.
        shutil.copytree(given, folder, ignore=shutil.ignore_patterns("*.npz"))
    else:
        chosen = [path.parent for family in ("network", "fuse") for path in sorted(FIXTURES.glob(f"{family}/*/model.onnx"))]
        for source in chosen[:71]:
            place = folder / source.parent.name
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / "model.onnx", place / f"{source.name}.onnx")
    shutil.copy(model("refused/unknown_operator"), folder / "bad.onnx")
    return folder


@pytest.fixture
def cluster():
    """A Ray of two workers, which do not find the modules of the tests."""
    ray.cloudpickle.register_pickle_by_value(conftest)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_rows_and_files_are_those_of_a_batch(example, models, cluster, tmp_path):
    import pyarrow.parquet

    example.main(models, tmp_path / "ray", 2)
    rows = pyarrow.parquet.read_table(tmp_path / "ray" / "results").to_pylist()
    batch = onnx2ncnn.convert_many(models, tmp_path / "batch")
    assert len(rows) == len(batch) >= 72
    by_model = {row["model"]: row for row in rows}
    for result in batch:
        row = by_model[str(models / f"{result.name}.onnx")]
        assert row["status"] == result.status
        assert row["diagnostics"] == [str(diagnostic) for diagnostic in result.diagnostics]
    files = lambda out: {path.relative_to(out): path for path in out.rglob("*.ncnn.*") if path.is_file()}
    from_ray, from_batch = files(tmp_path / "ray"), files(tmp_path / "batch")
    assert from_ray.keys() == from_batch.keys() and len(from_ray) > 100
    for name, path in from_ray.items():
        assert filecmp.cmp(path, from_batch[name], shallow=False), name
    (bad,) = by_model[str(models / "bad.onnx")]["diagnostics"]
    assert "unknown operator Shrug" in bad


@needs_proc
def test_memory_of_a_worker_does_not_grow_with_the_model(example, cluster, large, tmp_path):
    convert_row = example.convert_row

    def measured(row):
        before = peak()
        return {**convert_row(row), "growth": peak() - before}

    rows = [{"model": str(large), "param": str(tmp_path / f"{i}.param"), "bin": str(tmp_path / f"{i}.bin")} for i in range(3)]
    done = ray.data.from_items(rows, override_num_blocks=len(rows)).map(measured, num_cpus=1, concurrency=2).take_all()
    assert [row["status"] for row in done] == ["converted"] * 3
    # The weights are 256 MiB.
    assert max(row["growth"] for row in done) < 64 << 20


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
