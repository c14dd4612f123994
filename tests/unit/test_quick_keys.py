"""Keys that are encoded without Arrow are those of the core."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

import nimblepy as nb
from nimblepy.files.bounds import EncodedKeys
from nimblepy.rows.quick_keys import quick_encoder, quick_numbers

_KINDS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.string()]


@given(
    kind=st.sampled_from(_KINDS),
    descending=st.booleans(),
    nulls_first=st.booleans(),
    data=st.data(),
)
def test_quick_keys(
    kind: pa.DataType, descending: bool, nulls_first: bool, data: st.DataObject
) -> None:
    key = nb.SortKey("k", descending=descending, nulls_first=nulls_first)
    encode = quick_encoder(kind, key)
    values: Any = st.text(alphabet="\0\1\2aé\U0010ffff")
    if kind != pa.string():
        values = st.integers(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)
    value = data.draw(values)
    if encode is None:
        assert kind == pa.string()
        assert descending
        return
    found = encode(value)
    if found is None:
        assert "\0" in value or "\1" in value
        return
    batch = pa.RecordBatch.from_arrays([pa.array([value], kind)], names=["k"])
    assert found == EncodedKeys(batch, [key]).to_list()[0]


@given(
    nulls_first=st.booleans(),
    values=st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=8),
)
def test_numbers_are_ordered_as_the_keys(nulls_first: bool, values: list[int | None]) -> None:
    key = nb.SortKey("k", nulls_first=nulls_first)
    number = quick_numbers(pa.int32(), key)
    assert number is not None
    batch = pa.RecordBatch.from_arrays([pa.array(values, pa.int32())], names=["k"])
    encoded = EncodedKeys(batch, [key]).to_list()
    for value, found in zip(values, encoded, strict=True):
        edge = float("-inf") if nulls_first else float("inf")
        assert number(found) == (edge if value is None else value)
    assert number(b"") == float("-inf")
    assert number(b"\xff") == float("inf")
    assert quick_numbers(pa.string(), key) is None
    assert quick_numbers(pa.int32(), nb.SortKey("k", descending=True)) is None


@pytest.mark.parametrize("value", [True, 1.0, None, 2**63, -(2**63) - 1, "1", b"1"])
def test_keys_for_the_general_way(value: object) -> None:
    encode = quick_encoder(pa.int64(), nb.SortKey("k"))
    assert encode is not None
    assert encode(value) is None
    assert quick_encoder(pa.float64(), nb.SortKey("k")) is None
    texts = quick_encoder(pa.string(), nb.SortKey("k"))
    assert texts is not None
    assert texts("\ud800") is None
