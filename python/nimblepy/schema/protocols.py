"""What arguments have to be, said by what they can do rather than by whose classes they are."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping
from typing import Protocol, TypeAlias


class ArrowStream(Protocol):
    """Tables, frames, relations, files and scans: whatever streams record batches."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    """Arrow arrays and record batches."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> object: ...


# An iterable is of batches, frames, rows as dicts, or paths. Batches are kept when the next one is
# asked for, so their buffers may not be used again, as Arrow requires.
Tabular: TypeAlias = (
    ArrowStream | ArrowArray | Mapping[str, object] | Iterable[object] | str | os.PathLike[str]
)
# A scalar of Python, numpy, pandas, uuid or pyarrow; of several columns a tuple or dict of them.
Key: TypeAlias = Hashable | Mapping[str, object]
# What nimblepy.schema.many.as_many takes.
ManyKeys: TypeAlias = ArrowStream | ArrowArray | Iterable[Key]
RowIndices: TypeAlias = ArrowArray | Iterable[int]
