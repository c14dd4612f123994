"""Converts arrays to types for which pyarrow has kernels.

pyarrow cannot decode dictionaries of views, gather views, or compare runs. These functions return
the same values in a plain type: no dictionaries, runs, views or extension types, also inside
structs.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """Returns the type of :func:`plain_array` of an array of ``data_type``."""
    if isinstance(data_type, pa.BaseExtensionType):
        return plain_type(data_type.storage_type)
    if pt.is_dictionary(data_type) or pt.is_run_end_encoded(data_type):
        return plain_type(data_type.value_type)
    if pt.is_string_view(data_type):
        return pa.large_string()
    if pt.is_binary_view(data_type):
        return pa.large_binary()
    if pt.is_struct(data_type):
        fields = [item.with_type(plain_type(item.type)) for item in data_type]
        return data_type if fields == list(data_type) else pa.struct(fields)
    return data_type


def plain_array(array: pa.Array) -> pa.Array:
    """Returns the values of ``array`` in a plain type; the same array if its type is plain."""
    target = plain_type(array.type)
    if target == array.type:
        return array
    if isinstance(array, pa.ExtensionArray):
        return plain_array(array.storage)
    if pt.is_dictionary(array.type):
        return plain_array(array.dictionary).take(array.indices)
    if pt.is_run_end_encoded(array.type):
        runs = pa.RunEndEncodedArray.from_arrays(array.run_ends, plain_array(array.values))
        import pyarrow.compute as pc  # slow to import, and seldom needed

        return pc.run_end_decode(runs.slice(array.offset, len(array)))
    if pt.is_struct(array.type):
        fields = [plain_array(array.field(i)) for i in range(array.type.num_fields)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(fields, fields=list(target), mask=mask)
    return array.cast(target)
