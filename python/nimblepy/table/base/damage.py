"""Lists the exceptions that damaged files cause."""

from __future__ import annotations

import struct

# Exceptions, besides CorruptFileError, that reading damaged bytes may raise.
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
