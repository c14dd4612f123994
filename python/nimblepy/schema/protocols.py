"""Types of arguments, defined by their methods and not by their classes."""

from __future__ import annotations

import datetime
import os
from collections.abc import Hashable, Iterable, Mapping
from typing import Protocol, SupportsFloat, TypeAlias


class ArrowStream(Protocol):
    """Tables, frames, relations, files and scans: everything that streams record batches."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    """Arrow arrays and record batches."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> object: ...


# An iterable of batches, frames, rows as dicts, or paths. Batches are kept after the next one is
# requested, so their buffers must not be reused, as Arrow requires.
Tabular: TypeAlias = (
    ArrowStream | ArrowArray | Mapping[str, object] | Iterable[object] | str | os.PathLike[str]
)
# A scalar of Python, numpy, pandas, uuid or pyarrow; for several columns a tuple or dict.
Key: TypeAlias = Hashable | Mapping[str, object]
# Everything that nimblepy.schema.many.as_many accepts.
ManyKeys: TypeAlias = ArrowStream | ArrowArray | Iterable[Key]
RowIndices: TypeAlias = ArrowArray | Iterable[int]
# The greatest distance of two times or of two numbers.
Distance: TypeAlias = datetime.timedelta | SupportsFloat
