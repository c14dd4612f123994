"""Generators of Arrow types, arrays and tables that are as nasty as Arrow permits.

Hypothesis draws the *shape* (types, lengths, seed); values come from numpy's seeded generator, so
that examples are cheap, shrink well and repeat. Everything is legal Arrow
(`validate(full=True)`), and nothing is canonical: arrays start at an offset, null slots hold
garbage, list views overlap, dictionaries have unused and repeated entries.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from pyarrow import types as pat


class ParcelType(pa.ExtensionType):
    """A registered user extension type with parameters."""

    def __init__(self, unit: str = "kg") -> None:
        self.unit = unit
        super().__init__(
            pa.struct([pa.field("weight", pa.float32()), pa.field("label", pa.utf8())]),
            "test.parcel",
        )

    def __arrow_ext_serialize__(self) -> bytes:
        return self.unit.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> ParcelType:
        return cls(serialized.decode())


pa.register_extension_type(ParcelType())

TEXT = [
    "",
    "\0",
    "a",
    "a\0",
    "a\0b",
    "A",
    "ab",
    "é",
    "ÿ",
    "\uffff",
    "𝄞",
    "𝄞𝄞",
    "x" * 13,
    "shared/prefix/" * 9,
]
BINARY = [
    b"",
    b"\0",
    b"\xff",
    b"\xff\xff",
    b"\0\xff\0",
    b"a",
    b"a\0",
    b"\x80",
    b"\xfe" * 17,
    b"shared" * 20,
]
FLOAT_BITS = {  # -0.0, infinities, smallest, largest, NaNs with payloads and either sign
    16: [0x0000, 0x8000, 0x7C00, 0xFC00, 0x0001, 0x7BFF, 0xFBFF, 0x7E00, 0x7E01, 0xFE2A, 0x7C01],
    32: [
        0,
        1 << 31,
        0x7F800000,
        0xFF800000,
        1,
        0x7F7FFFFF,
        0x7FC00000,
        0x7FC12345,
        0xFFC00001,
        0x7F800001,
    ],
    64: [
        0,
        1 << 63,
        0x7FF << 52,
        0xFFF << 52,
        1,
        (0x7FF << 52) - 1,
        0x7FF8 << 48,
        (0x7FF8 << 48) + 99,
        (0xFFF << 52) + 1,
    ],
}

_UNITS = ["s", "ms", "us", "ns"]
LEAF_TYPES: list[pa.DataType] = [
    pa.null(),
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint16(),
    pa.uint32(),
    pa.uint64(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
    pa.decimal32(7, 2),
    pa.decimal64(18, 0),
    pa.decimal128(38, 10),
    pa.decimal128(5, -3),
    pa.decimal256(76, 20),
    pa.date32(),
    pa.date64(),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    pa.time64("ns"),
    *[pa.timestamp(unit) for unit in _UNITS],
    pa.timestamp("us", "UTC"),
    pa.timestamp("ns", "Europe/Zurich"),
    pa.timestamp("s", "+05:30"),
    *[pa.duration(unit) for unit in _UNITS],
    pa.month_day_nano_interval(),
    pa.utf8(),
    pa.large_utf8(),
    pa.string_view(),
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
    pa.binary(1),
    pa.binary(5),
    pa.binary(16),
]
EXTENSION_TYPES: list[pa.DataType] = [pa.uuid(), pa.json_(), pa.bool8(), ParcelType("lb")]
ENCODED_TYPES: list[pa.DataType] = [
    pa.dictionary(pa.int8(), pa.utf8()),
    pa.dictionary(pa.int32(), pa.large_utf8(), ordered=True),
    pa.dictionary(pa.uint16(), pa.float64()),
    pa.dictionary(pa.int64(), pa.timestamp("us", "UTC")),
    pa.dictionary(pa.uint8(), pa.decimal128(20, 3)),
    pa.run_end_encoded(pa.int16(), pa.utf8()),
    pa.run_end_encoded(pa.int32(), pa.float32()),
    pa.run_end_encoded(pa.int64(), pa.list_(pa.int8())),
]
_X = pa.field("x", pa.int32())
NESTED_TYPES: list[pa.DataType] = [
    pa.list_(pa.int64()),
    pa.large_list(pa.utf8()),
    pa.list_view(pa.float64()),
    pa.large_list_view(pa.binary()),
    pa.list_(pa.int16(), 3),
    pa.list_(pa.utf8(), 0),
    pa.list_(pa.field("element", pa.utf8(), nullable=False, metadata={b"m": b"1"})),
    pa.struct([]),
    pa.struct([_X]),
    pa.struct(
        [_X, pa.field("y", pa.utf8(), nullable=False), pa.field("z", pa.list_(pa.float32()))]
    ),
    pa.map_(pa.utf8(), pa.int64()),
    pa.map_(pa.int32(), pa.list_(pa.utf8()), keys_sorted=True),
    pa.dense_union([_X, pa.field("s", pa.utf8())]),
    pa.sparse_union([_X, pa.field("s", pa.utf8())], [5, 9]),
    pa.list_(pa.list_(pa.list_(pa.int8()))),
    pa.struct([pa.field("a", pa.struct([pa.field("b", pa.struct([pa.field("c", pa.utf8())]))]))]),
    pa.list_(
        pa.struct(
            [
                pa.field("m", pa.map_(pa.utf8(), pa.list_(pa.float64()))),
                pa.field("d", ENCODED_TYPES[0]),
            ]
        )
    ),
    pa.list_(pa.uuid()),
    pa.struct([pa.field("n", pa.null()), pa.field("v", pa.string_view())]),
]
ALL_TYPES = LEAF_TYPES + EXTENSION_TYPES + ENCODED_TYPES + NESTED_TYPES


# ---- ---- arrays ----


def make_array(
    type_: pa.DataType, n: int, rng: np.random.Generator, null_rate: float = 0.2
) -> pa.Array:
    """`n` values of the type. Children get nulls at the same rate where their field allows it."""
    pad = int(rng.integers(0, 4))
    array = _build(type_, n + pad + 2, rng, null_rate)
    return array.slice(pad, n)


def _build(type_: pa.DataType, n: int, rng: np.random.Generator, null_rate: float) -> pa.Array:
    if pat.is_null(type_):
        return pa.nulls(n)
    if isinstance(type_, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, _build_storage(type_, n, rng, null_rate))
    if pat.is_nested(type_) or pat.is_dictionary(type_) or pat.is_run_end_encoded(type_):
        return _build_nested(type_, n, rng, null_rate)
    mask = _mask(n, rng, null_rate)
    if pat.is_string(type_) or pat.is_large_string(type_) or pat.is_string_view(type_):
        return _variable(type_, [_pick_text(rng) for _ in range(n)], mask)
    if pat.is_fixed_size_binary(type_):
        return _fixed_width(type_, rng.bytes(n * type_.byte_width), n, mask)
    if pat.is_binary(type_) or pat.is_large_binary(type_) or pat.is_binary_view(type_):
        return _variable(type_, [_pick_binary(rng) for _ in range(n)], mask)
    if pat.is_boolean(type_):
        return pa.array(rng.integers(0, 2, n).astype(bool), type_, mask=mask)
    if pat.is_decimal(type_):
        return _decimals(type_, n, rng, mask)
    return _fixed_width(type_, _raw_values(type_, n, rng), n, mask)


def _mask(n: int, rng: np.random.Generator, null_rate: float) -> np.ndarray | None:
    """True where null. None (no validity buffer at all) when nulls are not allowed, and
    sometimes when they are.
    """
    if null_rate == 0 or rng.random() < 0.15:
        return None
    return rng.random(n) < null_rate


def _validity(mask: np.ndarray | None) -> pa.Buffer | None:
    return None if mask is None else pa.py_buffer(np.packbits(~mask, bitorder="little").tobytes())


def _fixed_width(type_: pa.DataType, raw: bytes, n: int, mask: np.ndarray | None) -> pa.Array:
    return pa.Array.from_buffers(type_, n, [_validity(mask), pa.py_buffer(raw)])


def _variable(type_: pa.DataType, values: list[Any], mask: np.ndarray | None) -> pa.Array:
    if mask is None or pat.is_string_view(type_) or pat.is_binary_view(type_):
        hidden = mask if mask is not None else np.zeros(len(values), bool)
        return pa.array(
            [None if null else value for value, null in zip(values, hidden, strict=True)], type_
        )
    full = pa.array(values, type_)  # null slots keep their bytes, hidden by the bitmap
    return pa.Array.from_buffers(type_, len(values), [_validity(mask), *full.buffers()[1:]])


def _pick_text(rng: np.random.Generator) -> str:
    style = rng.integers(0, 3)
    if style == 0:
        return TEXT[rng.integers(len(TEXT))]
    if style == 1:
        return f"https://example.org/{rng.integers(0, 50)}/item"
    return "".join(chr(c) for c in rng.integers(0x20, 0x2FF, int(rng.integers(0, 12))))


def _pick_binary(rng: np.random.Generator) -> bytes:
    return (
        BINARY[rng.integers(len(BINARY))]
        if rng.random() < 0.5
        else rng.bytes(int(rng.integers(0, 20)))
    )


def _decimals(type_: Any, n: int, rng: np.random.Generator, mask: np.ndarray | None) -> pa.Array:
    limit = 10**type_.precision - 1
    width = type_.bit_width // 8
    pool = [limit, -limit, 0, 1, -1, limit // 7]
    values = [
        pool[rng.integers(len(pool))]
        if rng.random() < 0.4
        else int.from_bytes(rng.bytes(width), "little") % limit
        for _ in range(n)
    ]
    raw = b"".join(value.to_bytes(width, "little", signed=True) for value in values)
    return _fixed_width(type_, raw, n, mask)


def decimal_of(unscaled: int, scale: int) -> decimal.Decimal:
    return decimal.Decimal((int(unscaled < 0), [int(d) for d in str(abs(unscaled))], -scale))


def _raw_values(type_: pa.DataType, n: int, rng: np.random.Generator) -> bytes:
    """Little-endian bytes of `n` values: extremes, small numbers, runs, sequences or noise."""
    if pat.is_interval(type_):
        parts = np.zeros(n, dtype=[("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])
        for name in parts.dtype.names or ():
            limits = np.iinfo(parts[name].dtype)
            parts[name] = rng.integers(
                limits.min, limits.max, n, dtype=parts[name].dtype, endpoint=True
            )
        return parts.tobytes()
    width = type_.bit_width
    dtype: Any = np.dtype(f"{'u' if pat.is_unsigned_integer(type_) else 'i'}{width // 8}")
    if pat.is_floating(type_):
        return _float_bits(width, n, rng)
    low, high, step = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max), 1
    if pat.is_time(type_):
        low, high = 0, 86_400 * 10 ** (3 * _UNITS.index(type_.unit)) - 1
    elif pat.is_date64(type_):
        step = 86_400_000
        low, high = -(2**62 // step), 2**62 // step
    style = rng.integers(0, 5)
    if style == 0:
        values = np.array([low, high, 0, min(1, high), max(low, -1)], dtype)[rng.integers(0, 5, n)]
    elif style == 1:
        values = rng.integers(low, high, n, dtype=dtype, endpoint=True)
    elif style == 2:
        values = np.repeat(rng.integers(0, 100, n // 5 + 1, dtype=dtype), 5)[:n]
    elif style == 3:
        values = (np.arange(n) % 100).astype(dtype)
    else:
        values = np.full(n, rng.integers(0, 100), dtype)
    return (values * dtype.type(step)).tobytes()


def _float_bits(width: int, n: int, rng: np.random.Generator) -> bytes:
    dtype = np.dtype(f"u{width // 8}")
    style = rng.integers(0, 4)
    if style == 0:
        pool = np.array(FLOAT_BITS[width], dtype)
        return pool[rng.integers(0, len(pool), n)].tobytes()
    if style == 1:
        return np.frombuffer(rng.bytes(n * width // 8), dtype).tobytes()
    if style == 2:  # prices: what decimal-aware encodings are for
        return np.round(rng.random(n) * 100, 2).astype(f"f{width // 8}").tobytes()
    return np.frombuffer(rng.standard_normal(n).astype(f"f{width // 8}").tobytes(), dtype).tobytes()


def _build_storage(type_: Any, n: int, rng: np.random.Generator, null_rate: float) -> pa.Array:
    if type_.extension_name == "arrow.json":
        mask = _mask(n, rng, null_rate)
        texts = ['{"a": 1}', "[]", '"𝄞"', "null"]
        return _variable(type_.storage_type, [texts[rng.integers(4)] for _ in range(n)], mask)
    return _build(type_.storage_type, n, rng, null_rate)


# ---- ---- nested arrays ----


def _child(f: pa.Field, n: int, rng: np.random.Generator, null_rate: float) -> pa.Array:
    return make_array(f.type, n, rng, null_rate if f.nullable else 0.0)


def _build_nested(type_: Any, n: int, rng: np.random.Generator, null_rate: float) -> pa.Array:
    if pat.is_union(type_):
        return _union(type_, n, rng, null_rate)
    if pat.is_run_end_encoded(type_):
        return _run_end_encoded(type_, n, rng, null_rate)
    mask = _mask(n, rng, null_rate)
    validity = _validity(mask)
    if pat.is_dictionary(type_):
        size = int(rng.integers(1, 9))
        values = make_array(type_.value_type, size, rng, 0.0)
        raw = rng.integers(0, size, n, dtype=type_.index_type.to_pandas_dtype()).tobytes()
        indices = _fixed_width(type_.index_type, raw, n, mask)
        return pa.DictionaryArray.from_arrays(indices, values, ordered=type_.ordered)
    if pat.is_struct(type_):
        children = [_child(type_.field(i), n, rng, null_rate) for i in range(type_.num_fields)]
        return pa.Array.from_buffers(type_, n, [validity], children=children)
    if pat.is_fixed_size_list(type_):
        child = _child(type_.value_field, n * type_.list_size, rng, null_rate)
        return pa.Array.from_buffers(type_, n, [validity], children=[child])
    lengths = rng.integers(0, 4, n)
    if pat.is_list_view(type_) or pat.is_large_list_view(type_):
        child = _child(
            type_.value_field, 4 * n + 4, rng, null_rate
        )  # views overlap and are out of order
        width = "i4" if pat.is_list_view(type_) else "i8"
        starts = pa.py_buffer(rng.integers(0, 4 * n, n).astype(width).tobytes())
        sizes = pa.py_buffer(lengths.astype(width).tobytes())
        return pa.Array.from_buffers(type_, n, [validity, starts, sizes], children=[child])
    skipped = int(rng.integers(0, 3))  # the first list does not start at child 0
    offsets = np.concatenate([[0], np.cumsum(lengths)]) + skipped
    raw = pa.py_buffer(offsets.astype("i8" if pat.is_large_list(type_) else "i4").tobytes())
    total = int(offsets[-1])
    if pat.is_map(type_):
        pairs = pa.struct([type_.key_field, type_.item_field])
        child = _build_nested_no_nulls(pairs, total, rng, null_rate)
    else:
        child = _child(type_.value_field, total, rng, null_rate)
    return pa.Array.from_buffers(type_, n, [validity, raw], children=[child])


def _build_nested_no_nulls(
    type_: pa.StructType, n: int, rng: np.random.Generator, null_rate: float
) -> pa.Array:
    children = [_child(type_.field(i), n, rng, null_rate) for i in range(type_.num_fields)]
    return pa.Array.from_buffers(type_, n, [None], children=children)


def _run_end_encoded(type_: Any, n: int, rng: np.random.Generator, null_rate: float) -> pa.Array:
    cuts = rng.choice(np.arange(1, max(n, 2)), size=min(n // 3, max(n - 1, 0)), replace=False)
    ends = np.unique(np.concatenate([cuts, [n]])).astype(type_.run_end_type.to_pandas_dtype())
    values = make_array(type_.value_type, len(ends), rng, null_rate)
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends), values, type=type_)


def _union(type_: Any, n: int, rng: np.random.Generator, null_rate: float) -> pa.Array:
    which = rng.integers(0, type_.num_fields, n)
    ids = pa.array(np.array(type_.type_codes, "i1")[which], pa.int8())
    fields = [type_.field(i) for i in range(type_.num_fields)]
    children = [_child(f, n, rng, null_rate) for f in fields]
    names = [f.name for f in fields]
    if type_.mode == "sparse":
        return pa.UnionArray.from_sparse(ids, children, names, type_.type_codes)
    slots = np.zeros(n, "i4")
    for i in range(type_.num_fields):
        slots[which == i] = np.arange((which == i).sum())
    return pa.UnionArray.from_dense(ids, pa.array(slots), children, names, type_.type_codes)


# ---- ---- hypothesis ----


def _composites(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    fields = st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=3).map(
        lambda drawn: [
            pa.field(f"f{i}", t, nullable or pat.is_null(t))
            for i, (t, nullable) in enumerate(drawn)
        ]
    )
    makers: list[Callable[[pa.DataType], pa.DataType]] = [
        pa.list_,
        pa.large_list,
        pa.list_view,
        pa.large_list_view,
    ]
    lists = st.builds(lambda make, t: make(t), st.sampled_from(makers), inner)
    fixed = st.builds(pa.list_, inner, st.integers(0, 3))
    maps = st.builds(pa.map_, st.sampled_from([pa.utf8(), pa.int64(), pa.date32()]), inner)
    return st.one_of(lists, fixed, fields.map(pa.struct), maps)


def data_types(*, unions: bool = True) -> st.SearchStrategy[pa.DataType]:
    """Any type of ALL_TYPES, or lists, structs and maps of them, to depth 3."""
    leaves = st.sampled_from(ALL_TYPES if unions else [t for t in ALL_TYPES if not pat.is_union(t)])
    return st.one_of(leaves, _composites(st.one_of(leaves, _composites(leaves))))


_METADATA = st.none() | st.dictionaries(
    st.sampled_from([b"a", b"PARQUET:field_id", b"unit", b"\xff"]),
    st.sampled_from([b"", b"7", b"\0\xff", b"text"]),
    max_size=3,
)


@st.composite
def tables(
    draw: st.DrawFn, *, max_rows: int = 120, max_columns: int = 4, unions: bool = True
) -> pa.Table:
    """A table with several chunks (some empty), metadata, nullable and required columns."""
    types = draw(st.lists(data_types(unions=unions), min_size=1, max_size=max_columns))
    n = draw(st.integers(0, max_rows))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    null_rate = draw(st.sampled_from([0.0, 0.2, 0.9, 1.0]))
    cuts = sorted(draw(st.lists(st.integers(0, n), max_size=3)))
    fields, columns = [], []
    for i, type_ in enumerate(types):
        # Arrow has no validity for these, so "required" would mean "no null inside" (undecidable
        # here)
        required = not (
            pat.is_null(type_) or pat.is_union(type_) or pat.is_run_end_encoded(type_)
        ) and draw(st.booleans())
        fields.append(pa.field(f"c{i}", type_, nullable=not required, metadata=draw(_METADATA)))
        columns.append(cut(make_array(type_, n, rng, 0.0 if required else null_rate), cuts))
    return pa.table(columns, schema=pa.schema(fields, metadata=draw(_METADATA)))


def cut(array: pa.Array, cuts: list[int]) -> pa.ChunkedArray:
    """The array in several chunks: zero-copy slices, empty where two cuts coincide."""
    edges = [0, *cuts, len(array)]
    chunks = [array.slice(begin, end - begin) for begin, end in pairwise(edges)]
    return pa.chunked_array(chunks, type=array.type)


def table_of(type_: pa.DataType, n: int, *, seed: int = 0, null_rate: float = 0.2) -> pa.Table:
    """One column `v` of the type, in three chunks, beside an int64 column `row`."""
    rng = np.random.default_rng(seed)
    column = cut(make_array(type_, n, rng, null_rate), sorted([n // 3, n // 2]))
    return pa.table({"v": column, "row": pa.array(range(n), pa.int64())})
