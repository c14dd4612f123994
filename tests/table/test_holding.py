"""Which files can hold keys: all that do, and those that the library's evaluator leaves in."""

from __future__ import annotations

import random
import uuid
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import In
from pyiceberg.expressions import visitors as ice_visitors
from tests.table.test_pruning import _KINDS, _value, random_table

import nimblepy as nb
from nimblepy.errors import InvalidArgumentError
from nimblepy.table.base.values import constant
from nimblepy.table.reading import plan


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("seed", range(400, 406))
def test_files_are_those_that_the_library_leaves_in(
    lake: nb.Catalog, seed: int, indexed: bool
) -> None:
    rng = random.Random(seed)
    table = random_table(lake, rng)
    metadata = table._metadata
    entries = [e for m in metadata.manifests(metadata.head()) for e in metadata.entries(m)]
    if indexed:
        table.rewrite_manifests()
        plan.clear_caches()
    left_out = 0
    for field in table.schema:
        if not any(field.type == kind for kind in _KINDS):
            continue
        values = [_value(field.type, rng) for _ in range(rng.choice([1, 3, 30]))]
        keys = pa.array([constant(field.type, v).as_py() for v in values], field.type)
        found = table.files_for_keys(keys, on=field.name)
        evaluator = ice_visitors._InclusiveMetricsEvaluator(
            metadata.ice.schema(), In(field.name, values)
        )
        expected = sorted(e.file.path for e in entries if evaluator.eval(e.raw.data_file))
        assert found["path"].to_pylist() == expected, field
        assert set(found["keys"].to_pylist()) <= set(range(1, len(set(values)) + 1))
        left_out += len(entries) - len(expected)
    assert left_out


def test_how_many_keys_each_file_can_hold(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.table({"n": [1, 5, 9]}), cluster_by="n")
    table.append(pa.table({"n": [8, 20]}))
    table.append(pa.table({"n": pa.array([None], pa.int64())}))
    found = table.files_for_keys([1, 8, 8, 9, 30])
    assert sorted(zip(found["rows"].to_pylist(), found["keys"].to_pylist(), strict=True)) == [
        (2, 2),
        (3, 3),
    ]
    assert table.files_for_keys([]).num_rows == 0
    assert lake.create_table("a.c", table.schema).files_for_keys([1], on="n").num_rows == 0


def test_keys_are_those_that_get_takes(lake: nb.Catalog) -> None:
    ids = [uuid.UUID(int=i << 100 | 7) for i in range(4)]
    kind = pa.binary(16)
    rows = pa.table({"u": pa.array([item.bytes for item in ids], kind), "n": range(4)})
    table = lake.create_table("a.b", rows.schema, cluster_by="u")
    for i in range(4):
        table.append(rows.slice(i, 1))
    one, two = ids[1], ids[2]
    for keys in (
        [one, two],
        [str(one), two.bytes],
        [str(one).upper(), str(two)],
        pa.array([str(one), str(two)]),
        pa.chunked_array([[one.bytes], [two.bytes]], kind),
    ):
        assert table.files_for_keys(keys)["keys"].to_pylist() == [1, 1]
    assert table.files_for_keys([1, 2.0, 1 << 70], on="n")["keys"].to_pylist() == [1, 1]
    assert table.files_for_keys(pa.array([3, 9], pa.uint64()), on="n").num_rows == 1
    for wrong in (["x"], [str(one)[:-1]], [2.5]):
        with pytest.raises(InvalidArgumentError):
            table.files_for_keys(wrong)


@pytest.mark.parametrize(
    ("keys", "on"), [([None], None), (["x"], None), ([1], "m"), ([1], "s"), (7, None)]
)
def test_what_cannot_be_asked(lake: nb.Catalog, keys: Any, on: str | None) -> None:
    rows = pa.table({"n": [1], "s": [{"x": 1}]})
    table = lake.create_table("a.b", rows, cluster_by="n")
    with pytest.raises(InvalidArgumentError):
        table.files_for_keys(keys, on=on)
