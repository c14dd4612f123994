"""Errors that damaged files cause."""

from __future__ import annotations

import struct

# Errors that reading damaged bytes raises, besides CorruptFileError.
BAD_BYTES: tuple[type[Exception], ...] = (
    ValueError,
    struct.error,
    OSError,
    EOFError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    NotImplementedError,  # raised by pyiceberg for unknown types
    StopIteration,
)
