"""Bit-exact comparison of Arrow tables.

`pa.Table.equals` is the judge, but it calls NaN different from itself and 0.0 equal to -0.0. So
every float leaf, at any depth, is first reinterpreted as an unsigned integer of the same width:
then equality is equality of bits. Chunk layout does not count; validity, values, types,
dictionaries, field names and metadata do.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyarrow import types as pat

import nimblepy as nb
from second_reader import verify_file

_BITS = {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}


def bits_type(type_: pa.DataType) -> pa.DataType:
    """The type with every float replaced by an unsigned integer, and extensions by their
    storage.
    """

    def field(f: pa.Field) -> pa.Field:
        return f.with_type(bits_type(f.type))

    if pat.is_floating(type_):
        return _BITS[type_.bit_width]
    if isinstance(type_, pa.BaseExtensionType):
        return bits_type(type_.storage_type)
    if pat.is_list(type_):
        return pa.list_(field(type_.value_field))
    if pat.is_large_list(type_):
        return pa.large_list(field(type_.value_field))
    if pat.is_list_view(type_):
        return pa.list_view(field(type_.value_field))
    if pat.is_large_list_view(type_):
        return pa.large_list_view(field(type_.value_field))
    if pat.is_fixed_size_list(type_):
        return pa.list_(field(type_.value_field), type_.list_size)
    if pat.is_map(type_):
        return pa.map_(field(type_.key_field), field(type_.item_field), type_.keys_sorted)
    if pat.is_struct(type_):
        return pa.struct([field(type_.field(i)) for i in range(type_.num_fields)])
    if pat.is_dictionary(type_):
        return pa.dictionary(type_.index_type, bits_type(type_.value_type), type_.ordered)
    if pat.is_run_end_encoded(type_):
        return pa.run_end_encoded(type_.run_end_type, bits_type(type_.value_type))
    if pat.is_union(type_):
        fields = [field(type_.field(i)) for i in range(type_.num_fields)]
        return pa.union(fields, type_.mode, type_.type_codes)
    return type_


def as_bits(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column reinterpreted (not converted) as `bits_type` of its type."""
    type_ = bits_type(column.type)
    if type_ == column.type:
        return column
    chunks = [
        pa.Array._import_from_c_capsule(type_.__arrow_c_schema__(), chunk.__arrow_c_array__()[1])
        for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, type=type_)


def assert_same_table(got: pa.Table, want: pa.Table) -> None:
    """Fails, naming the column and the first differing row, unless both hold exactly the same."""
    assert isinstance(got, pa.Table), f"got {type(got)}"
    assert got.schema.equals(want.schema, check_metadata=True), (
        f"schemas differ\n--- got\n{got.schema.to_string(show_schema_metadata=True)}"
        f"\n--- want\n{want.schema.to_string(show_schema_metadata=True)}"
    )
    assert got.num_rows == want.num_rows, f"{got.num_rows} rows, want {want.num_rows}"
    got.validate(full=True)
    for name, got_column, want_column in zip(
        want.column_names, got.columns, want.columns, strict=True
    ):
        got_bits, want_bits = as_bits(got_column), as_bits(want_column)
        if not got_bits.equals(want_bits):
            row = _first_difference(got_bits, want_bits)
            raise AssertionError(
                f"column {name!r} ({want_column.type}) differs at row {row}:"
                f"\n got {got_bits.slice(row, 1)}\nwant {want_bits.slice(row, 1)}"
            )


def _first_difference(a: pa.ChunkedArray, b: pa.ChunkedArray) -> int:
    low, high = 0, len(a)  # a[:low] equals b[:low]; a[:high] differs
    while high - low > 1:
        middle = (low + high) // 2
        if a.slice(0, middle).equals(b.slice(0, middle)):
            low = middle
        else:
            high = middle
    return low


def assert_stays_when_indexes_change(path: str | Path, table: pa.Table, column: str) -> None:
    """A hash index is added and dropped; the file keeps the rows, and every rule of the format."""
    nb.add_index(path, nb.HashIndex(column))
    assert verify_file(path).ok
    for mmap in (True, False):
        with nb.open(path, mmap=mmap) as file:
            assert file.to_table().equals(table)
            some = table[column][17].as_py()
            assert some in file.lookup([some], columns=[column], on=column)[column].to_pylist()
    nb.drop_index(path, column)
    assert verify_file(path).ok
    with nb.open(path) as file:
        assert file.to_table().equals(table)
