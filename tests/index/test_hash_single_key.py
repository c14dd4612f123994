"""One key at a time through a hash index: the way that decodes a candidate without Arrow."""

from __future__ import annotations

from typing import Any

import key_cases
import oracle
import pyarrow as pa
import pytest
from key_cases import KEY_TYPES, KeyType

import nimblepy as nb

pytestmark = pytest.mark.model

EXTREMES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "uint64": (pa.uint64(), [0, 1, 2**63 - 1, 2**63, 2**64 - 1, None]),
    "int8": (pa.int8(), [-128, -1, 0, 127, None]),
    "int64": (pa.int64(), [-(2**63), -1, 0, 2**63 - 1]),
    "text": (pa.utf8(), ["", "\0", "a\0\1", "x" * 254, "x" * 255, "y" * 700, "ä", None]),
    "view": (pa.string_view(), ["", "short", "longer than twelve bytes", None]),
}


@pytest.mark.parametrize("mmap", [True, False], ids=["mapped", "read"])
@pytest.mark.parametrize("key", KEY_TYPES, ids=lambda k: k.name)
def test_single_keys_of_every_type_equal_oracle(path: str, key: KeyType, mmap: bool) -> None:
    table = key_cases.one_column_case(key, 60, seed=12)
    nb.write(table, path, indexes=[nb.HashIndex("k")])
    file = nb.open(path, mmap=mmap)
    stored = oracle.table_keys(table, ["k"])
    for value in [*key.pool, None]:
        batch = key_cases.probe_table(["k"], [key], [(value,)])
        want = [row for _, row in oracle.lookup(stored, [(value,)])]
        got = file.lookup(batch, on="k", columns=["row"]).column(0).to_pylist()
        assert got == table.column("row").take(pa.array(want, pa.int64())).to_pylist()


@pytest.mark.parametrize("name", EXTREMES)
def test_single_extreme_values_are_found_and_nothing_else(path: str, name: str) -> None:
    type_, values = EXTREMES[name]
    table = pa.table({"k": pa.array(values, type_), "row": range(len(values))})
    nb.write(table, path, indexes=[nb.HashIndex("k")])
    file = nb.open(path)
    for row, value in enumerate(values):
        want = None if value is None else {"row": row}
        assert file.get(value, ["row"], on="k") == want


def test_a_column_behind_a_shorter_name_is_the_one_that_settles(path: str) -> None:
    table = pa.table(
        {
            "a": pa.array([{"b": i} for i in range(50)]),
            "a.b": pa.array(range(100, 150)),
            "row": range(50),
        }
    )
    nb.write(table, path, indexes=[nb.HashIndex("a.b")])
    file = nb.open(path)
    assert file.get(7, ["row"], on="a.b") is None
    assert file.get(107, ["row"], on="a.b") == {"row": 7}
