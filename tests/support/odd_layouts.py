"""Arrow arrays that are legal and that no careful tool makes: each value has a twin made the
plain way by `pa.array`.

A function of ODD gives (odd, plain): equal arrays, of which the first lies in memory in an odd way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

N = 260  # rows; not a multiple of 8
GARBAGE = 0x5A
RANDOM = np.random.default_rng(8)
NULL = RANDOM.random(N) < 0.3
NUMBERS = RANDOM.integers(-(2**40), 2**40, N)
Made = tuple[pa.Array, pa.Array]
ODD: dict[str, Callable[[], Made]] = {}


def odd(make: Callable[[], Made]) -> Callable[[], Made]:
    ODD[make.__name__.strip("_")] = make
    return make


def bits(valid: np.ndarray[Any, Any], *, first: int = 0) -> pa.Buffer:
    """A bitmap that begins at bit `first` and has all bits set around the values."""
    padded = np.concatenate([np.ones(first, bool), valid, np.ones(67, bool)])
    return pa.py_buffer(np.packbits(padded, bitorder="little").tobytes())


def unaligned(values: np.ndarray[Any, Any] | bytes, *, by: int = 1) -> pa.Buffer:
    """The bytes at an address that no type of more than a byte is aligned to."""
    content = values if isinstance(values, bytes) else values.tobytes()
    room = np.empty(len(content) + 64 + by, np.uint8)
    start = -room.ctypes.data % 64 + by
    room[:] = GARBAGE
    room[start : start + len(content)] = np.frombuffer(content, np.uint8)
    buffer = pa.py_buffer(room).slice(start, len(content))
    assert buffer.address % 2 == 1 or len(content) == 0 or by % 2 == 0
    return buffer


def with_nulls(values: list[Any], type_: pa.DataType) -> pa.Array:
    return pa.array([None if n else v for v, n in zip(values, NULL, strict=True)], type_)


def _fixed(type_: pa.DataType, values: np.ndarray[Any, Any]) -> Made:
    made = pa.Array.from_buffers(type_, len(values), [None, unaligned(values)])
    plain = pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(values.tobytes())])
    return made, plain


# ---- addresses ----


@odd
def unaligned_int64() -> Made:
    return _fixed(pa.int64(), NUMBERS)


@odd
def unaligned_int16() -> Made:
    return _fixed(pa.int16(), NUMBERS.astype(np.int16))


@odd
def unaligned_float64() -> Made:
    return _fixed(pa.float64(), NUMBERS / 100)


@odd
def unaligned_float32() -> Made:
    return _fixed(pa.float32(), (NUMBERS / 100).astype(np.float32))


@odd
def unaligned_timestamp() -> Made:
    return _fixed(pa.timestamp("us", "UTC"), NUMBERS)


@odd
def unaligned_decimal128() -> Made:
    return _fixed(pa.decimal128(38, 2), np.stack([NUMBERS, NUMBERS >> 63], 1).copy())


@odd
def unaligned_decimal256() -> Made:
    high = NUMBERS >> 63
    return _fixed(pa.decimal256(76, 2), np.stack([NUMBERS, high, high, high], 1).copy())


@odd
def unaligned_interval() -> Made:
    values = np.zeros(N, [("m", "<i4"), ("d", "<i4"), ("n", "<i8")])
    values["m"], values["n"] = NUMBERS % 99, NUMBERS
    return _fixed(pa.month_day_nano_interval(), values)


@odd
def unaligned_offsets() -> Made:
    return _unaligned_text(pa.utf8(), np.int32)


@odd
def unaligned_large_offsets() -> Made:
    return _unaligned_text(pa.large_utf8(), np.int64)


def _unaligned_text(type_: pa.DataType, offset: type) -> Made:
    words = [f"word {n}" * (n % 5) for n in range(N)]
    ends = np.cumsum([0] + [len(w) for w in words]).astype(offset)
    content = [None, unaligned(ends), unaligned("".join(words).encode())]
    return pa.Array.from_buffers(type_, N, content), pa.array(words, type_)


@odd
def unaligned_views() -> Made:
    plain = pa.array([f"word {n}" * (n % 5) for n in range(N)], pa.string_view())
    validity, views, *data = plain.buffers()
    content = [validity, unaligned(views.to_pybytes(), by=3), *data]
    return pa.Array.from_buffers(plain.type, N, content), plain


@odd
def unaligned_list_offsets() -> Made:
    ends = np.arange(N + 1, dtype=np.int32) * 2
    child = pa.Array.from_buffers(
        pa.int32(), 2 * N, [None, unaligned(np.arange(2 * N, dtype="i4"))]
    )
    made = pa.Array.from_buffers(pa.list_(pa.int32()), N, [None, unaligned(ends)], children=[child])
    return made, pa.array([[2 * i, 2 * i + 1] for i in range(N)], pa.list_(pa.int32()))


@odd
def unaligned_codes() -> Made:
    codes = np.arange(N, dtype=np.int32) % 3
    values = pa.array(["a", "b", "c"])
    indices = pa.Array.from_buffers(pa.int32(), N, [None, unaligned(codes)])
    return pa.DictionaryArray.from_arrays(indices, values), pa.DictionaryArray.from_arrays(
        pa.array(codes), values
    )


# ---- bitmaps ----


@odd
def bitmap_with_an_offset_of_its_own() -> Made:
    # parent and validity begin at bit 13; bits around the values are set
    raw = np.concatenate([np.full(13, -1), NUMBERS])
    made = pa.Array.from_buffers(
        pa.int64(), N, [bits(~NULL, first=13), pa.py_buffer(raw)], offset=13
    )
    return made, with_nulls(NUMBERS.tolist(), pa.int64())


@odd
def bitmap_unaligned_in_memory() -> Made:
    content = [unaligned(bits(~NULL).to_pybytes()), pa.py_buffer(NUMBERS)]
    return pa.Array.from_buffers(pa.int64(), N, content), with_nulls(NUMBERS.tolist(), pa.int64())


@odd
def bitmap_all_set_with_unknown_null_count() -> Made:
    everything = np.ones(N, bool)
    made = pa.Array.from_buffers(pa.int64(), N, [bits(everything), pa.py_buffer(NUMBERS)], -1)
    return made, pa.array(NUMBERS)


@odd
def bitmap_all_unset() -> Made:
    nothing = bits(np.zeros(N, bool))
    made = pa.Array.from_buffers(pa.int64(), N, [nothing, pa.py_buffer(NUMBERS)], -1)
    return made, pa.nulls(N, pa.int64())


@odd
def booleans_begin_within_a_byte() -> Made:
    truth = NUMBERS > 0
    made = pa.Array.from_buffers(
        pa.bool_(), N, [bits(~NULL, first=5), bits(truth, first=5)], offset=5
    )
    return made, with_nulls(truth.tolist(), pa.bool_())


@odd
def struct_nulls_hide_valid_children() -> Made:
    child = pa.array(NUMBERS)
    made = pa.Array.from_buffers(pa.struct([("x", pa.int64())]), N, [bits(~NULL)], children=[child])
    return made, with_nulls([{"x": n} for n in NUMBERS.tolist()], made.type)


# ---- null slots with garbage ----


@odd
def null_codes_out_of_range() -> Made:
    codes = np.where(NULL, 99, np.arange(N) % 3).astype(np.int8)
    indices = pa.Array.from_buffers(pa.int8(), N, [bits(~NULL), pa.py_buffer(codes)])
    values = pa.array(["a", "b", "c"])
    made = pa.DictionaryArray.from_arrays(indices, values, safe=False)
    plain = with_nulls([i % 3 for i in range(N)], pa.int8())
    return made, pa.DictionaryArray.from_arrays(plain, values)


@odd
def null_codes_negative() -> Made:
    codes = np.where(NULL, -(2**62), np.arange(N) % 3)
    indices = pa.Array.from_buffers(pa.int64(), N, [bits(~NULL), pa.py_buffer(codes)])
    values = pa.array(["a", "b", "c"])
    made = pa.DictionaryArray.from_arrays(indices, values, safe=False)
    plain = with_nulls([i % 3 for i in range(N)], pa.int64())
    return made, pa.DictionaryArray.from_arrays(plain, values)


@odd
def null_views_point_nowhere() -> Made:
    words = [f"a long enough word {n}" for n in range(N)]
    plain = with_nulls(words, pa.string_view())
    _, views, *data = plain.buffers()
    raw = np.frombuffer(views.to_pybytes(), np.uint8).reshape(N, 16).copy()
    raw[NULL] = GARBAGE  # size, buffer and offset: all wrong
    content = [bits(~NULL), pa.py_buffer(raw), *data]
    return pa.Array.from_buffers(plain.type, N, content), plain


@odd
def null_lists_have_children() -> Made:
    ends = np.arange(N + 1, dtype=np.int32) * 3
    child = pa.array(np.arange(3 * N))
    type_ = pa.list_(pa.int64())
    made = pa.Array.from_buffers(type_, N, [bits(~NULL), pa.py_buffer(ends)], children=[child])
    return made, with_nulls([[3 * i, 3 * i + 1, 3 * i + 2] for i in range(N)], type_)


@odd
def null_text_has_bytes() -> Made:
    ends = np.arange(N + 1, dtype=np.int32) * 3
    content = [bits(~NULL), pa.py_buffer(ends), pa.py_buffer(b"xyz" * N)]
    return pa.Array.from_buffers(pa.utf8(), N, content), with_nulls(["xyz"] * N, pa.utf8())


@odd
def null_list_views_overlap() -> Made:
    starts = RANDOM.integers(0, 50, N).astype(np.int32)
    sizes = RANDOM.integers(0, 4, N).astype(np.int32)
    child = pa.array(np.arange(60))
    type_ = pa.list_view(pa.int64())
    content = [bits(~NULL), pa.py_buffer(starts), pa.py_buffer(sizes)]
    made = pa.Array.from_buffers(type_, N, content, children=[child])
    lists = [list(range(a, a + n)) for a, n in zip(starts.tolist(), sizes.tolist(), strict=True)]
    return made, with_nulls(lists, type_)


@odd
def null_fixed_lists_hide_text() -> Made:
    type_ = pa.list_(pa.utf8(), 2)
    child = pa.array([f"{i}" for i in range(2 * N)])
    made = pa.Array.from_buffers(type_, N, [bits(~NULL)], children=[child])
    return made, with_nulls([[f"{2 * i}", f"{2 * i + 1}"] for i in range(N)], type_)


@odd
def null_maps_have_entries() -> Made:
    type_ = pa.map_(pa.utf8(), pa.int64())
    ends = np.arange(N + 1, dtype=np.int32)
    pairs = pa.StructArray.from_arrays(
        [pa.array([f"{i}" for i in range(N)]), pa.array(np.arange(N))],
        fields=[type_.key_field, type_.item_field],
    )
    made = pa.Array.from_buffers(type_, N, [bits(~NULL), pa.py_buffer(ends)], children=[pairs])
    return made, with_nulls([[(f"{i}", i)] for i in range(N)], type_)


# ---- children that are longer than their parents, and begin later ----


@odd
def first_offset_is_not_zero() -> Made:
    ends = (np.arange(N + 1) * 2 + 40).astype(np.int64)
    content = pa.py_buffer((b"#" * 40) + b"ab" * N + b"#" * 40)
    made = pa.Array.from_buffers(pa.large_utf8(), N, [None, pa.py_buffer(ends), content])
    return made, pa.array(["ab"] * N, pa.large_utf8())


@odd
def list_begins_deep_in_a_sliced_child() -> Made:
    child = pa.array([f"{i}" for i in range(3 * N)]).slice(50)
    ends = (np.arange(N + 1) + 90).astype(np.int32)
    made = pa.ListArray.from_buffers(
        pa.list_(pa.utf8()), N, [None, pa.py_buffer(ends)], children=[child]
    )
    return made, pa.array([[f"{i + 140}"] for i in range(N)])


@odd
def struct_of_longer_sliced_children() -> Made:
    a = pa.array(np.arange(3 * N)).slice(7)
    b = pa.array([f"{i}" for i in range(3 * N)]).slice(11)
    type_ = pa.struct([("a", pa.int64()), ("b", pa.utf8())])
    made = pa.Array.from_buffers(type_, N, [None], offset=100, children=[a, b])
    return made, pa.array([{"a": i + 107, "b": f"{i + 111}"} for i in range(N)], type_)


@odd
def fixed_list_with_offsets_above_and_below() -> Made:
    child = pa.array(np.arange(5 * N)).slice(3)
    type_ = pa.list_(pa.int64(), 3)
    made = pa.Array.from_buffers(type_, N, [None], offset=40, children=[child])
    return made, pa.array([[123 + 3 * i + j for j in range(3)] for i in range(N)], type_)


@odd
def sparse_union_sliced() -> Made:
    which = pa.array((np.arange(N + 50) % 2).astype(np.int8))
    children = [pa.array(np.arange(N + 50)), pa.array([f"{i}" for i in range(N + 50)])]
    whole = pa.UnionArray.from_sparse(which, children)
    plain_children = [child.slice(31, N).take(pa.array(range(N))) for child in children]
    return whole.slice(31, N), pa.UnionArray.from_sparse(
        pa.array(which.to_pylist()[31 : 31 + N], pa.int8()), plain_children
    )


@odd
def dense_union_skips_and_repeats_slots() -> Made:
    slots = np.sort(RANDOM.integers(0, 9, N + 30)).astype(np.int32)
    which = (np.arange(N + 30) % 2).astype(np.int8)
    children = [pa.array(np.arange(9) * 7), pa.array([f"{i}" for i in range(9)])]
    whole = pa.UnionArray.from_dense(pa.array(which), pa.array(slots), children)
    kept = which[30:], slots[30:]
    numbers = [int(7 * s) for w, s in zip(*kept, strict=True) if w == 0]
    words = [f"{s}" for w, s in zip(*kept, strict=True) if w == 1]
    ranks = np.where(kept[0] == 0, np.cumsum(kept[0] == 0), np.cumsum(kept[0] == 1)) - 1
    plain = pa.UnionArray.from_dense(
        pa.array(kept[0]), pa.array(ranks.astype(np.int32)), [pa.array(numbers), pa.array(words)]
    )
    return whole.slice(30), plain


@odd
def run_ends_reach_past_the_rows() -> Made:
    ends = pa.array([100, 230, 100_000], pa.int32())
    runs = pa.RunEndEncodedArray.from_arrays(ends, pa.array(["x", None, "z"]))
    plain_ends = pa.array([80, 210, N], pa.int32())
    return runs.slice(20, N), pa.RunEndEncodedArray.from_arrays(
        plain_ends, pa.array(["x", None, "z"])
    )


@odd
def dictionary_is_sliced_and_has_nulls() -> Made:
    values = pa.array(["#", "#", "a", None, "b", "#"]).slice(2, 3)
    indices = with_nulls([i % 3 for i in range(N)], pa.uint8())
    plain = pa.array(["a", None, "b"])
    return pa.DictionaryArray.from_arrays(indices, values), pa.DictionaryArray.from_arrays(
        indices, plain
    )


@odd
def dictionary_of_structs() -> Made:
    values = pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": "b"}]).slice(0, 3)
    indices = with_nulls([i % 3 for i in range(N)], pa.int16())
    made = pa.DictionaryArray.from_arrays(indices, values)
    return made.slice(0), made


@odd
def views_of_many_buffers() -> Made:
    chunks = [
        pa.array([f"the long word {i}, chunk {c}" for i in range(N // 10)]) for c in range(10)
    ]
    plain = pa.chunked_array([c.cast(pa.string_view()) for c in chunks]).combine_chunks()
    return plain.slice(0), pa.array(plain.to_pylist(), pa.string_view())


# ---- nothing at all ----


def empty_arrays() -> dict[str, pa.Array]:
    """Arrays without rows, with the least of buffers that Arrow allows."""
    none = pa.py_buffer(b"")
    zero = pa.py_buffer(bytes(8))
    text, items = pa.utf8(), pa.list_(pa.int64())
    inner = pa.array([], pa.int64())
    return {
        "no values": pa.Array.from_buffers(pa.int64(), 0, [None, None]),
        "no bytes": pa.Array.from_buffers(text, 0, [None, zero, none]),
        "no offsets": pa.Array.from_buffers(text, 0, [None, none, none]),
        "no list offsets": pa.Array.from_buffers(items, 0, [None, none], children=[inner]),
        "views": pa.Array.from_buffers(pa.string_view(), 0, [None, none]),
        "booleans": pa.Array.from_buffers(pa.bool_(), 0, [None, None]),
        "dictionary": pa.DictionaryArray.from_arrays(
            pa.array([], pa.int8()), pa.array([], pa.utf8())
        ),
        "struct": pa.Array.from_buffers(
            pa.struct([("x", pa.int64())]), 0, [None], children=[inner]
        ),
    }
