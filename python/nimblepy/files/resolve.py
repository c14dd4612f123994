"""What "a file or dataset, or where one is" means, and the join that takes it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.filter import Parameters
from nimblepy.file.open import open as open_file
from nimblepy.files.dataset import open_dataset
from nimblepy.files.directory import is_directory, resolve_directory
from nimblepy.io.location import FileSystem
from nimblepy.join.joinable import Joinable
from nimblepy.join.plan import How
from nimblepy.schema.names import ColumnName

Source: TypeAlias = Joinable | str | os.PathLike[str]


def as_rows(source: Source, *, filesystem: FileSystem | None = None) -> Joinable:
    """``source`` itself, or the file or directory at a path or URI, opened.

    Raises:
        InvalidArgumentError: it is none of these.
        OSError: nothing is there.
    """
    if isinstance(source, Joinable):
        return source
    if not isinstance(source, (str, os.PathLike)):
        raise InvalidArgumentError(
            f"expected a File, a Dataset, or the path or URI of one, got {type(source).__name__}"
        )
    text = os.fspath(source)
    if text.endswith(".nimble"):
        return open_file(source, filesystem=filesystem)
    remote, path = resolve_directory(source, filesystem)
    if is_directory(path, remote):
        return open_dataset(source, filesystem=filesystem)
    return open_file(source, filesystem=filesystem)


def index_join(
    probe: Any,
    file: Source,
    *,
    on: str | Sequence[str] | Mapping[str, ColumnName],
    how: How = "inner",
    columns: Sequence[str] | None = None,
    condition: pc.Expression | str | None = None,
    params: Parameters = None,
    suffix: str = "_right",
    null_equals: bool = False,
    between: Mapping[str, tuple[str, str]] | None = None,
) -> pa.Table | pa.RecordBatchReader:
    """:meth:`nimblepy.File.index_join` of ``file``, which says what the arguments mean.

    Args:
        file: a :class:`File` or :class:`Dataset`, or the path or URI of one.
    """
    return as_rows(file).index_join(
        probe,
        on=on,
        how=how,
        columns=columns,
        condition=condition,
        params=params,
        suffix=suffix,
        null_equals=null_equals,
        between=between,
    )
