"""What goes wrong where bytes are not what they should be."""

from __future__ import annotations

import struct

# What reading such bytes raises, besides CorruptFileError.
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
    NotImplementedError,  # raised by pyiceberg, of types that it does not know
    StopIteration,
)
