"""The generators make what they promise: legal, varied, repeatable and not canonical."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
import strategies
from exact import as_bits, assert_same_table
from hypothesis import Phase, find, given, settings
from pyarrow import types as pat

pytestmark = pytest.mark.no_sanitizer  # of what tests are made with


@pytest.mark.parametrize("type_", strategies.ALL_TYPES, ids=str)
@pytest.mark.parametrize("null_rate", [0.0, 0.3, 1.0])
def test_make_array_every_type_is_legal_and_has_length(
    type_: pa.DataType, null_rate: float
) -> None:
    for n in (0, 1, 50):
        array = strategies.make_array(type_, n, np.random.default_rng(n), null_rate)
        array.validate(full=True)
        assert array.type == type_
        assert len(array) == n


@pytest.mark.parametrize("type_", strategies.ALL_TYPES, ids=str)
def test_make_array_same_seed_gives_same_bits(type_: pa.DataType) -> None:
    first, second = (strategies.table_of(type_, 40, seed=5) for _ in range(2))
    assert_same_table(first, second)


def test_make_array_types_cover_all_of_pyarrow() -> None:
    # every factory of pyarrow that makes a type is represented; a new one in pyarrow fails here
    made = {t.id for t in strategies.ALL_TYPES}
    missing = {
        name
        for name in dir(pa.lib)
        if name.startswith("Type_")
        and getattr(pa.lib, name) not in made
        and isinstance(getattr(pa.lib, name), int)
    }
    assert missing <= {
        "Type_INTERVAL_MONTHS",
        "Type_INTERVAL_DAY_TIME",
    }  # pyarrow cannot make arrays of these


def test_make_array_nulls_occur_at_each_level() -> None:
    type_ = pa.list_(pa.struct([pa.field("a", pa.list_(pa.int8()))]))
    array = strategies.make_array(type_, 300, np.random.default_rng(3), 0.2)
    assert array.null_count > 0
    structs = array.flatten()
    assert structs.null_count > 0
    lists = structs.field(0)
    assert lists.null_count > 0
    assert lists.flatten().null_count > 0


def test_make_array_floats_contain_negative_zero_and_nan_payloads() -> None:
    bits = {
        int(b)
        for seed in range(30)
        for b in strategies.make_array(pa.float64(), 50, np.random.default_rng(seed), 0.0)
        .view(pa.uint64())
        .to_numpy()
    }
    assert {1 << 63, 0x7FF << 52, (0x7FF8 << 48) + 99} <= bits


def test_make_array_is_sliced_and_hides_values_under_nulls() -> None:
    arrays = [
        strategies.make_array(pa.utf8(), 60, np.random.default_rng(seed), 0.5) for seed in range(10)
    ]
    assert any(a.offset > 0 for a in arrays)
    hidden = 0
    for array in arrays:
        validity, offsets, data = array.buffers()
        if validity is not None:
            bare = pa.Array.from_buffers(
                pa.utf8(), len(array), [None, offsets, data], offset=array.offset
            )
            hidden += sum(len(bare[i].as_py()) for i in range(len(array)) if not array[i].is_valid)
    assert hidden > 0


@given(strategies.tables())
def test_tables_drawn_are_legal_and_equal_themselves(table: pa.Table) -> None:
    table.validate(full=True)
    assert_same_table(table, table)
    rebuilt = pa.Table.from_batches(table.to_batches(max_chunksize=7), schema=table.schema)
    assert_same_table(rebuilt, table)
    for field, column in zip(table.schema, table.columns, strict=True):
        assert field.nullable or column.null_count == 0


@pytest.mark.parametrize(
    "wanted",
    [
        lambda t: t.num_rows == 0,
        lambda t: t.schema.metadata is not None,
        lambda t: any(f.metadata for f in t.schema),
        lambda t: any(not f.nullable for f in t.schema),
        lambda t: any(len(c) == 0 for c in t.column(0).chunks) and t.num_rows > 0,
        lambda t: any(pat.is_list(f.type) and pat.is_struct(f.type.value_type) for f in t.schema),
    ],
    ids=["empty", "schema-metadata", "field-metadata", "required", "empty-chunk", "list-of-struct"],
)
def test_tables_every_promised_shape_can_be_found(wanted: object) -> None:
    generate_only = settings(max_examples=400, phases=[Phase.generate], database=None)
    find(strategies.tables(), wanted, settings=generate_only)


def test_table_equality_nan_payload_or_zero_sign_differs_is_reported() -> None:
    for a, b in ((0.0, -0.0), (math.nan, -math.nan)):
        for wrap in (
            pa.float64(),
            pa.list_(pa.float64()),
            pa.struct([pa.field("f", pa.float64())]),
        ):
            value = [[a]] if pat.is_list(wrap) else [{"f": a}] if pat.is_struct(wrap) else [a]
            other = [[b]] if pat.is_list(wrap) else [{"f": b}] if pat.is_struct(wrap) else [b]
            left, right = (
                pa.table({"x": pa.array(value, wrap)}),
                pa.table({"x": pa.array(other, wrap)}),
            )
            assert_same_table(left, left)
            with pytest.raises(AssertionError, match=r"'x'.*row 0"):
                assert_same_table(left, right)


def test_table_equality_metadata_or_dictionary_differs_is_reported() -> None:
    plain = pa.table({"x": pa.array(["a", "b"]).dictionary_encode()})
    other = pa.table(
        {"x": pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int32()), pa.array(["b", "a"]))}
    )
    with pytest.raises(AssertionError):
        assert_same_table(plain, other)
    with pytest.raises(AssertionError, match="schemas differ"):
        assert_same_table(plain, plain.replace_schema_metadata({"a": "b"}))


def test_as_bits_every_type_is_reinterpreted_not_converted() -> None:
    for type_ in strategies.ALL_TYPES:
        column = strategies.table_of(type_, 30).column("v")
        bits = as_bits(column)
        bits.validate(full=True)
        assert len(bits) == len(column)
