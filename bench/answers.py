"""Answers as digests: equal rows have equal ones, whoever gave them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def feed_array(digest: Any, array: pa.Array) -> None:
    """Adds values, every bit of floats: what lies under a null does not count, nor how buffers
    are cut, nor that equal values share an entry of a dictionary."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    digest.update(np.packbits(pc.is_valid(array).to_numpy(zero_copy_only=False)).tobytes())
    whole = pc.drop_null(array) if array.null_count else array
    kind = whole.type
    if pa.types.is_null(kind):
        return
    if pa.types.is_struct(kind):
        for child in whole.flatten():
            feed_array(digest, child)
        return
    if pa.types.is_map(kind):
        whole = whole.view(pa.list_(pa.struct([kind.key_field, kind.item_field])))
        kind = whole.type
    if pa.types.is_nested(kind):
        if not pa.types.is_fixed_size_list(kind):
            feed_array(digest, pc.list_value_length(whole))
        return feed_array(digest, pc.list_flatten(whole))
    if pa.types.is_boolean(kind):
        whole = whole.cast(pa.int8())
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        feed_array(digest, pc.binary_length(whole))
        offsets = np.frombuffer(whole.buffers()[1], np.int32)[whole.offset :][: len(whole) + 1]
        if len(whole):
            digest.update(memoryview(whole.buffers()[2])[offsets[0] : offsets[-1]])
        return
    width = whole.type.bit_width // 8
    begin = whole.offset * width
    if len(whole):
        digest.update(memoryview(whole.buffers()[1])[begin : begin + len(whole) * width])
