"""Odd but legal memory layouts are written as the values they hold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from odd_layouts import ODD, empty_arrays

import nimblepy as nb

pytestmark = pytest.mark.model

Check = Callable[[pa.Table], None]


@pytest.mark.parametrize("name", ODD)
def test_odd_layout_comes_back_as_its_values(
    comes_back: Check, store: Callable[..., nb.File], name: str
) -> None:
    made, plain = ODD[name]()
    made.validate(full=True)
    assert made.to_pylist() == plain.to_pylist()
    comes_back(pa.table({"odd": made}))
    got = store(pa.table({"odd": made})).to_table()
    assert got["odd"].to_pylist() == plain.to_pylist()
    # inside others, where nobody validates or slices it first
    comes_back(pa.table({"s": pa.StructArray.from_arrays([made, made], ["a", "b"])}))
    ends = pa.array(np.arange(len(made) + 1, dtype=np.int32))
    comes_back(pa.table({"l": pa.ListArray.from_arrays(ends, made)}))


@pytest.mark.parametrize("name", empty_arrays())
def test_array_without_rows_and_buffers_comes_back(comes_back: Check, name: str) -> None:
    array = empty_arrays()[name]
    comes_back(pa.table({"v": array}))
    comes_back(pa.table({"s": pa.StructArray.from_arrays([array], ["a"])}))
    lists = pa.ListArray.from_arrays(pa.array([0, 0, 0], pa.int32()), array)
    comes_back(pa.table({"l": lists}))
    if not pa.types.is_dictionary(array.type):
        filled = pa.array([None, None], array.type)
        comes_back(pa.table({"v": pa.chunked_array([array, filled, array, filled, array])}))
