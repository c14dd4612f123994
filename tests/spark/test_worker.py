"""What a Python worker does on its own; no JVM is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from source_handle import SourceHandle

import nimblepy as nb

pytest.importorskip("pyspark")
from dataset_files import make_dataset

from nimblepy.spark.base.inputs import find_input, open_cached


def test_worker_keeps_few_datasets_open_and_knows_a_replaced_one(tmp_path: Path) -> None:
    open_cached.cache_clear()
    path = str(tmp_path / "t.nimble")
    nb.write(pa.table({"k": [1]}), path, cluster_by="k")
    first = find_input(path)
    assert open_cached(first) is open_cached(find_input(path))
    nb.write(pa.table({"k": [1, 2]}), path, cluster_by="k")
    second = find_input(path)
    assert second.key != first.key
    assert open_cached(second).num_rows == 2
    for i in range(10):
        make_dataset(tmp_path / f"d{i}", [pa.table({"k": [i]})], "k")
        opened = SourceHandle(open_cached(find_input(str(tmp_path / f"d{i}"))))
        assert opened.get(i) == {"k": i}
    assert open_cached.cache_info().currsize == 8


def test_a_join_opens_its_dataset_once_and_is_planned_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pickle

    from pyspark.sql.types import LongType, StructField, StructType

    from nimblepy.join import plan
    from nimblepy.spark.base import inputs
    from nimblepy.spark.joins import index_join
    from nimblepy.spark.joins.arguments import JoinArguments
    from nimblepy.spark.joins.tasks import joined_batches

    make_dataset(tmp_path / "d", [pa.table({"k": [1, 2], "v": [7, 8]})], "k")
    calls: list[str] = []

    def counted(name: str, function: Any) -> Any:
        def call(*arguments: Any, **keywords: Any) -> Any:
            calls.append(name)
            return function(*arguments, **keywords)

        return call

    monkeypatch.setattr(inputs, "open_dataset", counted("open", inputs.open_dataset))
    monkeypatch.setattr(index_join, "plan_join", counted("plan", plan.plan_join))
    probe = StructType([StructField("k", LongType())])
    files = find_input(str(tmp_path / "d"))
    prepared = index_join.prepare(probe, files, JoinArguments(on="k", condition="v > 7"))
    assert calls == ["open", "plan"]
    spec = pickle.loads(pickle.dumps(prepared.spec))  # as it travels to a task
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    batches = [pa.record_batch({"k": [2, 1, 5]})] * 2
    joined = [batch.to_pylist() for batch in joined_batches(spec, schema)(batches)]
    assert joined == [[{"k": 2, "v": 8}]] * 2
    assert calls == ["open", "plan"]


def test_open_files_and_datasets_are_inputs_too(tmp_path: Path) -> None:
    path = str(tmp_path / "t.nimble")
    nb.write(pa.table({"k": [1]}), path, cluster_by="k")
    with nb.open(path) as file:
        assert find_input(file) == find_input(path)
    dataset = make_dataset(tmp_path / "d", [pa.table({"k": [1]})], "k")
    make_dataset(tmp_path / "d", [pa.table({"k": [2]})], "k")
    assert find_input(dataset).dataset.num_rows == 1  # its files, not the newest
    in_memory = nb.open(Path(path).read_bytes())
    with pytest.raises(nb.InvalidArgumentError, match="path or URI"):
        find_input(in_memory)


def test_text_is_no_list_of_columns(tmp_path: Path) -> None:
    # "ab" was read as the columns a and b.
    import nimblepy.spark as ns

    path = str(tmp_path / "t.nimble")
    nb.write(pa.table({"a": [1], "b": [1]}), path, cluster_by="a")
    with pytest.raises(nb.InvalidArgumentError, match="list of names"):
        ns.scan(None, path, columns="ab")
    with pytest.raises(nb.InvalidArgumentError, match="list of names"):
        ns.index_join_rdd(None, path, key="a", columns="ab")


def test_a_dataset_travels_as_its_list_of_files(tmp_path: Path) -> None:
    import pickle

    tables = [pa.table({"k": range(i * 10, i * 10 + 10)}) for i in range(200)]
    make_dataset(tmp_path / "d", tables, "k")
    files = find_input(str(tmp_path / "d"))
    make_dataset(tmp_path / "d", [pa.table({"k": [5000]})], "k")
    shipped = pickle.dumps(files)
    assert len(shipped) < 200 * 150
    assert pickle.loads(shipped).dataset.num_rows == 2000


SUPPORT = str(Path(__file__).resolve().parents[1] / "support")


def test_file_that_cannot_be_mapped_is_read(tmp_path: Path) -> None:
    # spark.executor.pyspark.memory limits a worker's address space
    path = str(tmp_path / "t.nimble")
    values = np.random.default_rng(0).random(6_000_000)
    nb.write(pa.table({"k": np.arange(6_000_000), "v": values}), path, cluster_by="k")
    code = f"""
import resource, sys, psutil
sys.path.insert(0, {SUPPORT!r})
from source_handle import SourceHandle
from nimblepy.spark.base.inputs import find_input, open_cached
files = find_input({path!r})
limit = psutil.Process().memory_info().vms + (24 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
dataset = open_cached(files)
assert SourceHandle(dataset).get(77)["v"] == {float(values[77])!r}
assert not dataset.child(0).handle.core.is_mapped
print("read")
"""
    pytest.importorskip("psutil")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "read\n", done.stderr
