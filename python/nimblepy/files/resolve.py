"""Opens a file or dataset by path or URI, and provides the joins that accept a path or URI."""

from __future__ import annotations

import os
from typing import TypeAlias, Unpack

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.file.open import open as open_file
from nimblepy.files.dataset import open_dataset, resolve_directory
from nimblepy.io.location import FileSystem, is_uri
from nimblepy.join.asof import AsofKeywords
from nimblepy.join.joinable import Joinable
from nimblepy.join.plan import JoinKeywords
from nimblepy.rows.arguments import passes_on_to
from nimblepy.schema.protocols import Tabular

Source: TypeAlias = Joinable | str | os.PathLike[str]


def as_rows(source: Source, *, filesystem: FileSystem | None = None) -> Joinable:
    """Returns ``source`` itself, or the file or directory at a path or URI, opened.

    Raises:
        InvalidArgumentError: ``source`` has another type.
        OSError: the file or directory does not exist.
    """
    if isinstance(source, Joinable):
        return source
    if not isinstance(source, (str, os.PathLike)):
        raise InvalidArgumentError(
            "expected a File, a Dataset, a Table, or the path or URI of a file or dataset, got "
            f"{type(source).__name__}"
        )
    if filesystem is None:
        check_names_no_table(source)
    text = os.fspath(source)
    if text.endswith(".nimble"):
        return open_file(source, filesystem=filesystem)
    if resolve_directory(source, filesystem).is_directory():
        return open_dataset(source, filesystem=filesystem)
    return open_file(source, filesystem=filesystem)


def check_names_no_table(source: object) -> None:
    """Raises InvalidArgumentError for ``LAKE#NAMESPACE.NAME``, which names a table in commands."""
    if not isinstance(source, str) or "#" not in source or os.path.exists(source):
        return
    lake, _, name = source.rpartition("#")
    is_file = name.endswith((".nimble", ".nbx", ".parquet"))  # in a store, this is not looked up
    if not is_file and "." in name and (is_uri(lake) or os.path.isdir(lake)):
        raise InvalidArgumentError(
            f"{source!r} names a table; open tables with nb.connect({lake!r}).table({name!r})"
        )


@passes_on_to(Joinable.index_join)
def index_join(
    probe: Tabular, file: Source, **join: Unpack[JoinKeywords]
) -> pa.Table | pa.RecordBatchReader:
    """Joins ``probe`` with ``file`` by key. See :meth:`nimblepy.File.index_join`.

    Args:
        file: a :class:`File`, :class:`Dataset` or :class:`Table`; or the path or URI of a file or
            dataset.
    """
    return as_rows(file).index_join(probe, **join)


@passes_on_to(Joinable.asof_join)
def asof_join(
    probe: Tabular, source: Source, **join: Unpack[AsofKeywords]
) -> pa.Table | pa.RecordBatchReader:
    """Joins ``probe`` with the nearest rows of ``source``. See :meth:`nimblepy.File.asof_join`.

    Args:
        source: a :class:`File`, :class:`Dataset` or :class:`Table`; or the path or URI of a file or
            dataset.
    """
    return as_rows(source).asof_join(probe, **join)
