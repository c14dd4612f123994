"""Which files can hold a key, against a look at each of them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nimblepy.files import bounds
from nimblepy.files.bounds import EncodedKeys, FileBounds
from nimblepy.schema.types import SortKey

pytestmark = pytest.mark.sanitizer

_KEYS = [SortKey("a"), SortKey("b")]
_PAIR = st.tuples(st.integers(0, 30), st.integers(0, 3))


def _encoded(pairs: list[tuple[int, ...]]) -> EncodedKeys:
    columns = [pa.array(column, pa.int64()) for column in zip(*pairs, strict=True)]
    return EncodedKeys(pa.RecordBatch.from_arrays(columns, ["a", "b"][: len(columns)]), _KEYS)


@given(
    st.lists(st.tuples(_PAIR, _PAIR), min_size=1, max_size=40),
    st.lists(_PAIR, min_size=1, max_size=5),
    st.integers(1, 2),
    st.sampled_from([1, 3, 8, 1024]),
)
def test_candidates(
    ends: list[tuple[tuple[int, int], tuple[int, int]]],
    asked: list[tuple[int, int]],
    width: int,
    block: int,
) -> None:
    files = sorted((min(pair), max(pair)) for pair in ends)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "_BLOCK", block)
        made = FileBounds(
            _encoded([low for low, _ in files]).to_array(),
            _encoded([high for _, high in files]).to_array(),
        )
        keys = [key[:width] for key in asked]
        encoded = _encoded(keys)
        ranges, found = made.candidates(encoded, encoded)
    expected = [
        (number, at)
        for at, (low, high) in enumerate(files)
        for number, key in enumerate(keys)
        if low[:width] <= key <= high[:width]
    ]
    assert list(zip(ranges.tolist(), found.tolist(), strict=True)) == expected
