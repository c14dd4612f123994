"""Kinds of Arrow types: their families, and which types can hold the values of others."""

from __future__ import annotations

from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.types as pt

Family: TypeAlias = Literal["number", "bool", "date", "instant", "time", "duration", "text", "none"]


def value_type(data_type: pa.DataType) -> pa.DataType:
    """Returns the type of the values, without dictionary or run-end encoding or extension type."""
    while pt.is_dictionary(data_type) or pt.is_run_end_encoded(data_type):
        data_type = data_type.value_type
    if isinstance(data_type, pa.BaseExtensionType):
        return value_type(data_type.storage_type)
    return data_type


def family(data_type: pa.DataType) -> Family:
    """Returns the family of literals that can be compared with a type.

    Timestamps with a zone and timestamps without are in the same family.
    """
    if pt.is_integer(data_type) or pt.is_floating(data_type) or pt.is_decimal(data_type):
        return "number"
    if pt.is_boolean(data_type):
        return "bool"
    if pt.is_date(data_type):
        return "date"
    if pt.is_timestamp(data_type):
        return "instant"
    if pt.is_time(data_type):
        return "time"
    if pt.is_duration(data_type):
        return "duration"
    if is_text(data_type) or is_bytes(data_type):
        return "text"
    return "none"


def is_text(data_type: pa.DataType) -> bool:
    """Returns whether the type is a UTF-8 type of any width."""
    return bool(
        pt.is_string(data_type) or pt.is_large_string(data_type) or pt.is_string_view(data_type)
    )


def is_bytes(data_type: pa.DataType) -> bool:
    """Returns whether the type is a binary type of any width."""
    return bool(
        pt.is_binary(data_type)
        or pt.is_large_binary(data_type)
        or pt.is_binary_view(data_type)
        or pt.is_fixed_size_binary(data_type)
    )


def is_list(data_type: pa.DataType) -> bool:
    """Returns whether the type is a list type of any form. A map is not a list."""
    return bool(
        pt.is_list(data_type)
        or pt.is_large_list(data_type)
        or pt.is_fixed_size_list(data_type)
        or pt.is_list_view(data_type)
        or pt.is_large_list_view(data_type)
    )


def widens(have: pa.DataType, target: pa.DataType) -> bool:
    """Returns whether ``target`` can represent every value of ``have``, in the same order."""
    if have == target or (is_text(have) and is_text(target)):
        return True
    if is_bytes(have) and is_bytes(target):
        return not pt.is_fixed_size_binary(target)
    if pt.is_date32(have):
        return bool(pt.is_date64(target))
    if pt.is_integer(have) and pt.is_integer(target):
        if pt.is_signed_integer(have):
            return bool(pt.is_signed_integer(target) and have.bit_width <= target.bit_width)
        return bool(have.bit_width + pt.is_signed_integer(target) <= target.bit_width)
    if pt.is_floating(have) and pt.is_floating(target):
        return bool(have.bit_width <= target.bit_width)
    if pt.is_integer(have) and pt.is_floating(target):
        # The significand can represent every integer of this many bits.
        return bool(have.bit_width < {16: 11, 32: 24, 64: 53}[target.bit_width])
    return False
