"""Options of the data source: what they hold comes back, and nothing in them is run."""

from __future__ import annotations

import base64
import json
import os
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from source_handle import SourceHandle

import nimblepy as nb
from nimblepy.expr.filter import with_params

pytest.importorskip("pyspark")
from pyspark.sql.types import LongType, StructField, StructType

from nimblepy.spark.base.inputs import find_input
from nimblepy.spark.base.options import indexes_of, pack_indexes, pack_scan, unpack_scan
from nimblepy.spark.reading.scan import NimbleReader
from nimblepy.spark.writing.write import NimbleWriter

SCHEMA = StructType([StructField("k", LongType())])


class Runs:
    """Its pickle makes a folder when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    nb.write(pa.table({"k": [1, 2, 3]}), tmp_path / "f.nimble", cluster_by="k")
    return tmp_path / "f.nimble"


def test_options_of_a_query_are_not_unpickled(path: Path, tmp_path: Path) -> None:
    # CREATE TEMP VIEW v USING nimble OPTIONS (nimblescan '...') ran code in the driver's Python.
    hostile = base64.b64encode(pickle.dumps(Runs(tmp_path / "ran"))).decode()
    for text in (hostile, json.dumps({"directory": "/", "files": hostile})):
        with pytest.raises(nb.InvalidArgumentError, match="nimblescan"):
            NimbleReader(SCHEMA, {"path": str(path), "nimblescan": text})
    with pytest.raises(nb.InvalidArgumentError, match="nimbleindexes"):
        NimbleWriter(SCHEMA, {"path": str(tmp_path / "d"), "nimbleindexes": hostile}, True)
    assert not (tmp_path / "ran").exists()


def test_options_hold_a_scan(path: Path) -> None:
    files = find_input(path)
    keys = pa.table({"k": [2, 3]})
    expression = pc.field("k") > 1
    found = unpack_scan(pack_scan(files, expression, ((1, "b"), None, "[]"), keys))
    assert found["files"].key == files.key
    assert SourceHandle(found["files"].dataset).to_table() == SourceHandle(files.dataset).to_table()
    assert found["filter"].equals(expression)
    lower, upper, inclusive = found["key_range"]
    assert ([value.as_py() for value in lower], upper, inclusive) == ([1, "b"], None, "[]")
    assert found["keys"] == keys
    text = unpack_scan(pack_scan(files, "k = 1", (2**70, b"\0", "[)"), None))
    assert text["filter"] == "k = 1"
    for params in ({"k": 1, "d": Decimal("1.50")}, [1, "a", None]):
        asked = with_params("k = 1", params)
        back = unpack_scan(pack_scan(files, asked, None, None))["filter"]
        values = back.params.values() if isinstance(params, dict) else back.params
        assert [value.as_py() for value in values] == list(
            params.values() if isinstance(params, dict) else params
        )
    assert [text["key_range"][i][0].as_py() for i in (0, 1)] == [Decimal(2**70), b"\0"]


def test_options_hold_indexes() -> None:
    indexes = [
        nb.HashIndex(["a", "b"], load_factor=0.5, bloom_bits_per_key=None),
        nb.SortedIndex([nb.SortKey("a", descending=True), "b"]),
    ]
    assert indexes_of({"nimbleindexes": pack_indexes(indexes)}) == indexes
    by_text = {"hash_index": "a, b; c", "sorted_index": "a desc"}
    assert indexes_of(by_text) == [
        nb.HashIndex(["a", "b"]),
        nb.HashIndex("c"),
        nb.SortedIndex(nb.SortKey("a", descending=True)),
    ]


@pytest.mark.parametrize("wrong", ["-1", "0", "x", "1.5", "", "9" * 5000])
def test_numbers_of_parts_that_are_none(path: Path, wrong: str) -> None:
    with pytest.raises(nb.InvalidArgumentError, match="option 'parts': expected an int >= 1"):
        NimbleReader(SCHEMA, {"path": str(path), "parts": wrong})
