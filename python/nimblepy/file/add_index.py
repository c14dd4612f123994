"""Indexes of files that exist: :func:`add_index` and :func:`drop_index`.

Rows are not encoded again: the new file is made of the old one's bytes, other index sections and
a new footer, and takes the old one's place in one step.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from nimblepy import _core
from nimblepy.errors import IndexUnavailableError, InvalidArgumentError
from nimblepy.file.file import File
from nimblepy.file.indexes import CLUSTER, Index, names_of
from nimblepy.file.open import open as open_file
from nimblepy.file.options import HashIndex, SortedIndex, WriteOptions
from nimblepy.file.write import index_specs
from nimblepy.io.location import FileSystem, locate
from nimblepy.io.log import logger
from nimblepy.io.progress import Progress, ProgressArg
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.names import ColumnName
from nimblepy.schema.types import IndexInfo, SortKey, as_sort_keys

_log = logger(__name__)

Path = str | os.PathLike[str]


def add_index(
    path: Path,
    index: HashIndex | SortedIndex | Sequence[HashIndex | SortedIndex],
    *,
    output: Path | None = None,
    options: WriteOptions | None = None,
    progress: ProgressArg = None,
    filesystem: FileSystem | None = None,
) -> list[IndexInfo]:
    """Adds secondary indexes to a file without encoding its rows again.

    The result is the file that :func:`nimblepy.write` would have made with these indexes. It is
    complete before it can be seen; a failure leaves what was there before.

    Args:
        path: an existing file; a URI, or a path in ``filesystem``.
        index: one index or several.
        output: where the new file goes; ``None`` replaces the old one. Handles that are open
            on the old file go on reading it.
        options: of these, those of indexes are used: ``index_memory_bytes``, ``key_chunk_rows``,
            ``restart_interval``.
        progress: ``True`` for a bar, or called as ``progress(rows_done, rows_total)``.
        filesystem: :class:`pyarrow.fs.FileSystem` or fsspec file system of both paths.

    Returns:
        All indexes of the new file.

    Raises:
        InvalidArgumentError: the file has such an index already, or lacks a column.
        CorruptFileError: what had to be read of the file is damaged.
        OSError: a file cannot be read or written.

    Cost: decodes the indexes' columns once and copies the file; memory is bounded by
        ``index_memory_bytes``.
    """
    with open_file(path, filesystem=filesystem) as file:
        specs = index_specs(file.schema, index)  # type: ignore[arg-type]
        if not specs:
            raise InvalidArgumentError("index: expected at least one")
        wanted = [index] if isinstance(index, (HashIndex, SortedIndex)) else list(index)
        for new in wanted:
            for old in file.handle.indexes:
                if _is(file, old, new):
                    raise InvalidArgumentError(
                        f"{os.fspath(path)} has the index {old} already; indexes of this file: "
                        f"{names_of(file.handle.indexes)}"
                    )
        return _rewrite(file, path, output, [], specs, options, progress, filesystem)


def drop_index(
    path: Path,
    index: str | Sequence[ColumnName] | HashIndex | SortedIndex | IndexInfo,
    *,
    output: Path | None = None,
    filesystem: FileSystem | None = None,
) -> list[IndexInfo]:
    """Drops secondary indexes of a file without encoding its rows again.

    Args:
        path: an existing file; a URI, or a path in ``filesystem``.
        index: its columns in order (then every secondary index on just these), or what it was
            made with, or the entry of :attr:`File.indexes`.
        output: where the new file goes; ``None`` replaces the old one.
        filesystem: :class:`pyarrow.fs.FileSystem` or fsspec file system of both paths.

    Returns:
        The indexes that are left.

    Raises:
        IndexUnavailableError: there is no such index; the message names those that exist.
        InvalidArgumentError: it is the cluster index, which is the order of the rows.
        OSError: a file cannot be read or written.

    Cost: copies the file.
    """
    with open_file(path, filesystem=filesystem) as file:
        found = [old for old in file.handle.indexes if _is(file, old, index)]
        drop = [old.number for old in found if old.number != CLUSTER]
        if not drop and found:
            raise InvalidArgumentError(
                f"{found[0]} is the order of the rows; it goes by writing them anew"
            )
        if not drop:
            raise IndexUnavailableError(
                f"{os.fspath(path)} has no such index; indexes of this file: "
                f"{names_of(file.handle.indexes)}"
            )
        return _rewrite(file, path, output, drop, [], None, None, filesystem)


def _is(
    file: File,
    index: Index,
    wanted: str | Sequence[ColumnName] | HashIndex | SortedIndex | IndexInfo,
) -> bool:
    """Whether ``wanted`` means this index of the file."""
    if isinstance(wanted, (HashIndex, SortedIndex, IndexInfo)):
        kind = "sorted" if isinstance(wanted, SortedIndex) else getattr(wanted, "kind", "hash")
        keys, orders = as_sort_keys(wanted.columns), [_order(key) for key in index.keys]
        if index.kind != kind or orders != [_order(key) for key in keys]:
            return False
    else:
        keys = as_sort_keys(wanted)
    return index.columns == tuple(resolve_column(file.schema, key.column) for key in keys)


def _order(key: SortKey) -> tuple[bool, bool]:
    return key.descending, key.nulls_first


def _rewrite(
    file: File,
    path: Path,
    output: Path | None,
    drop: list[int],
    specs: list[dict[str, Any]],
    options: WriteOptions | None,
    progress: ProgressArg,
    filesystem: Any,
) -> list[IndexInfo]:
    goal = path if output is None else output
    location = locate(goal, filesystem)
    chosen = options or WriteOptions()
    core_options = {
        "indexes": specs,
        "index_memory_bytes": chosen.index_memory_bytes,
        "key_chunk_rows": chosen.key_chunk_rows,
        "restart_interval": min(chosen.restart_interval, 2**31 - 1),
        "spill_directory": location.spill_folder,
    }
    rewriter = _core.IndexRewriter(file.handle.core, location.sink(), drop, core_options)
    shown = Progress(progress, file.num_rows)
    shown.stage("reading keys")
    try:
        while rows := rewriter.step():
            shown.advance(rows)
        shown.stage("building indexes")
        rewriter.finish()
    finally:
        rewriter.close()
        shown.finish()
    with open_file(goal, filesystem=filesystem) as made:
        _log.info("wrote %s: its indexes are now %s", goal, names_of(made.handle.indexes))
        return list(made.indexes)
