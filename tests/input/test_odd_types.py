"""Types at the edges of Arrow: written as they are, or refused by the column's name and type."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import strategies
from odd_layouts import ODD

import nimblepy as nb

pytestmark = pytest.mark.model

Check = Callable[[pa.Table], None]
UNITS = ["s", "ms", "us", "ns"]
ZONES = [
    "+05:30",
    "-00:01",
    "America/New_York",
    "Antarctica/Troll",
    "UTC",
    "Z",
    "Mars/Olympus",
    "ü",
]
INTEGERS = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64()]
INTEGERS.append(pa.uint64())
CODED = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.int8()), pa.array(["a", "b"]))
RUNS = pa.RunEndEncodedArray.from_arrays(pa.array([1, 4], pa.int32()), pa.array(["a", None]))


def test_timestamps_of_every_unit_and_zone_come_back(comes_back: Check) -> None:
    raw = pa.array([0, None, -1, 2**62, -(2**63), 2**63 - 1])
    comes_back(pa.table({f"{u} {z}": raw.view(pa.timestamp(u, z)) for u in UNITS for z in ZONES}))


def test_durations_of_every_unit_come_back(comes_back: Check) -> None:
    raw = pa.array([0, None, -1, 2**62, -(2**63), 2**63 - 1])
    comes_back(pa.table({unit: raw.view(pa.duration(unit)) for unit in UNITS}))


@pytest.mark.parametrize(("bits", "precision"), [(32, 9), (64, 18), (128, 38), (256, 76)])
def test_decimals_of_every_width_and_scale_come_back(
    comes_back: Check, bits: int, precision: int
) -> None:
    make: Any = getattr(pa, f"decimal{bits}")
    rng = np.random.default_rng(bits)
    columns = {}
    for scale in (-precision, -3, 0, 2, precision, precision + 3):
        type_ = make(precision, scale)
        columns[str(type_)] = strategies.make_array(type_, 200, rng)
    columns["least"] = strategies.make_array(make(1, 0), 200, rng)
    with decimal.localcontext(prec=100):
        comes_back(pa.table(columns))


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("codes", INTEGERS, ids=str)
def test_dictionaries_of_every_index_type_come_back(
    comes_back: Check, codes: pa.DataType, ordered: bool
) -> None:
    indices = pa.array([2, None, 0, 0, 1, 3], codes)
    values = {
        "text": pa.array(["b", None, "a", "b"]),
        "view": pa.array(["b", None, "a", "b" * 20], pa.string_view()),
        "null": pa.nulls(4),
        "bool": pa.array([True, None, False, True]),
        "list": pa.array([[1], None, [], [2, None]]),
        "struct": pa.array([{"x": 1}, None, {"x": None}, {"x": 1}]),
        "uuid": pa.array([b"a" * 16, None, b"b" * 16, b"a" * 16], pa.uuid()),
        "runs": RUNS,
    }
    made = {
        n: pa.DictionaryArray.from_arrays(indices, v, ordered=ordered) for n, v in values.items()
    }
    comes_back(pa.table(made))


def test_nested_dictionaries_that_differ_by_chunk_come_back(comes_back: Check) -> None:
    def chunk(words: str) -> pa.Array:
        coded = pa.array(list(words)).dictionary_encode()
        lists = pa.ListArray.from_arrays(pa.array([0, 2, len(words)], pa.int32()), coded)
        return pa.StructArray.from_arrays([lists, coded.slice(1, 2)], ["l", "d"])

    comes_back(pa.table({"v": pa.chunked_array([chunk("abca"), chunk("cdbb"), chunk("zya")])}))


def test_extension_types_come_back(comes_back: Check) -> None:
    integers, four = pa.array([1, None, 3, 4], pa.int32()), pa.list_(pa.int32(), 4)
    fours = pa.array([[1, 2, 3, 4], None, [5, 6, 7, None], [0] * 4], four)
    stored = {
        "opaque": (pa.opaque(pa.int32(), "geometry", "postgis"), integers),
        "tensor": (pa.fixed_shape_tensor(pa.int32(), [2, 2], dim_names=["h", "w"]), fours),
        "bool8": (pa.bool8(), pa.array([0, None, 1, -3], pa.int8())),
        "json": (pa.json_(pa.large_utf8()), pa.array(["{}", None, "1", "[]"], pa.large_utf8())),
    }
    columns = {n: pa.ExtensionArray.from_storage(*made) for n, made in stored.items()}
    columns["list"] = pa.ListArray.from_arrays(
        pa.array([0, 2, 2, 3, 4], pa.int32()), columns["bool8"]
    )
    comes_back(pa.table(columns))


def test_extension_type_that_nobody_registered_comes_back_as_metadata(comes_back: Check) -> None:
    metadata = {"ARROW:extension:name": "their.type", "ARROW:extension:metadata": "\u00fc \x00"}
    fields = [
        pa.field("v", CODED.type, metadata=metadata),
        pa.field("w", pa.int8(), metadata=metadata),
    ]
    comes_back(pa.table([CODED, pa.array([1, 2, None, 4], pa.int8())], schema=pa.schema(fields)))


def test_required_fields_at_every_depth_come_back(comes_back: Check) -> None:
    inner = pa.field("x", pa.int32(), nullable=False)
    struct = pa.struct([inner, pa.field("l", pa.list_(pa.field("e", pa.utf8(), nullable=False)))])
    fields = [
        pa.field("i", pa.int64(), nullable=False),
        pa.field("s", struct, nullable=False),
        pa.field(
            "m", pa.map_(pa.utf8(), pa.field("value", pa.int64(), nullable=False)), nullable=False
        ),
        pa.field("d", CODED.type, nullable=False),
    ]
    rows = [{"x": i, "l": [str(i)] * (i % 3)} for i in range(4)]
    maps = [[("k", i)] for i in range(4)]
    arrays = [
        pa.array(range(4)),
        pa.array(rows, struct),
        pa.array(maps, fields[2].type),
        CODED.fill_null("a"),
    ]
    comes_back(pa.table(arrays, schema=pa.schema(fields)))


def test_fields_of_equal_names_within_a_struct_come_back(comes_back: Check) -> None:
    struct = pa.StructArray.from_arrays([pa.array([1, 2]), pa.array(["a", None])], ["same", "same"])
    comes_back(pa.table({"v": struct}))


def test_unions_of_unions_runs_and_dictionaries_come_back(comes_back: Check) -> None:
    ids = pa.array([0, 1, 1, 0], pa.int8())
    inner = pa.UnionArray.from_sparse(ids, [CODED, RUNS])
    outer = pa.UnionArray.from_dense(ids, pa.array([0, 0, 1, 1], pa.int32()), [inner, pa.nulls(2)])
    comes_back(
        pa.table(
            {"v": outer, "runs": pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3, 4]), CODED)}
        )
    )
    comes_back(pa.table({"v": pa.UnionArray.from_sparse(pa.array([], pa.int8()), [])}))


# ---- what a file cannot hold ----


def _deep(levels: int) -> pa.DataType:
    type_: pa.DataType = pa.int8()
    for _ in range(levels):
        type_ = pa.list_(type_)
    return type_


def test_types_as_deep_as_allowed_come_back(comes_back: Check) -> None:
    comes_back(pa.table({"v": pa.array([None, []], _deep(62))}))


REFUSED = {
    "dictionary in a dictionary": (
        lambda: pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), CODED),
        "dictionary<dictionary<string, int8>, int8>",
    ),
    "dictionary deep in a dictionary": (
        lambda: pa.DictionaryArray.from_arrays(
            pa.array([0], pa.int8()), pa.ListArray.from_arrays(pa.array([0, 4], pa.int32()), CODED)
        ),
        "dictionary<list<item: dictionary<string, int8>>, int8>",
    ),
    "runs of runs": (
        lambda: pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3, 9]), RUNS),
        "run_end_encoded<run_ends: int64, values: run_end_encoded<.*>>",
    ),
    "too deep": (lambda: pa.array([None], _deep(63)), "nest deeper than 63"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_type_that_a_file_cannot_hold_is_refused_by_name(path: str, name: str) -> None:
    make, type_ = REFUSED[name]
    array = make()
    table = pa.table({"fine": pa.nulls(len(array)), "the column": array})
    with pytest.raises(nb.InvalidArgumentError, match=f"'the column'.*{type_}"):
        nb.write(table, path)
    assert not Path(path).exists()


# ---- keys ----

PROBES = [
    "bitmap_with_an_offset_of_its_own",
    "first_offset_is_not_zero",
    "null_codes_out_of_range",
    "null_text_has_bytes",
    "null_views_point_nowhere",
    "run_ends_reach_past_the_rows",
    "unaligned_codes",
    "unaligned_decimal128",
    "unaligned_float64",
    "unaligned_int64",
    "unaligned_large_offsets",
    "unaligned_offsets",
    "unaligned_timestamp",
    "unaligned_views",
]


@pytest.mark.parametrize("name", PROBES)
def test_odd_layouts_are_right_as_keys_and_as_probes(path: str, name: str) -> None:
    made, plain = ODD[name]()
    values = plain.to_pylist()
    index = nb.HashIndex(["k"]), nb.SortedIndex(["k"])
    coded = pa.types.is_dictionary(made.type) or pa.types.is_run_end_encoded(made.type)
    stored = pa.array(values, pa.utf8()) if coded else made
    table = pa.table({"k": stored, "row": pa.array(range(len(made)))})
    nb.write(table, path, cluster_by="k", indexes=index)
    with nb.open(path) as file:
        want = [0 if v is None else values.count(v) for v in values]
        for probe in (made, made.slice(3, 100)):
            begin = 0 if len(probe) == len(made) else 3
            assert file.count(probe, on="k").to_pylist() == want[begin : begin + len(probe)]
        found = file.lookup(made, on="k", columns=["k"], probe_row="probe")
        assert found["k"].to_pylist() == [values[p] for p in found["probe"].to_pylist()]
        assert len(found) == sum(want)
