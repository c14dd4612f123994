"""Changes the indexes of existing files: :func:`add_index` and :func:`drop_index`.

Rows are not encoded again. The new file consists of the old file's bytes, the changed index
sections and a new footer. It replaces the old file atomically.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from nimblepy import _core
from nimblepy.errors import IndexUnavailableError, InvalidArgumentError
from nimblepy.file.indexes import CLUSTER, Index, names_of
from nimblepy.file.open import open_source
from nimblepy.file.options import HashIndex, SortedIndex, VectorIndex, WriteOptions
from nimblepy.file.source import FileSource
from nimblepy.file.write import index_specs
from nimblepy.io.location import FileSystem, locate
from nimblepy.io.log import logger
from nimblepy.io.progress import Progress, ProgressArg
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.names import ColumnName
from nimblepy.schema.types import IndexInfo, SortKey, as_sort_keys

_log = logger(__name__)

Path = str | os.PathLike[str]
AnyIndex = HashIndex | SortedIndex | VectorIndex


def add_index(
    path: Path,
    index: AnyIndex | Sequence[AnyIndex],
    *,
    output: Path | None = None,
    options: WriteOptions | None = None,
    progress: ProgressArg = None,
    filesystem: FileSystem | None = None,
) -> list[IndexInfo]:
    """Adds secondary indexes to a file without encoding its rows again.

    The result is the file that :func:`nimblepy.write` would write with these indexes. The file is
    replaced atomically; after a failure, the old file is unchanged.

    Args:
        path: an existing file; a URI, or a path in ``filesystem``.
        index: one index or several.
        output: path of the new file; ``None`` replaces the old one. Open handles continue to read
            the old file.
        options: only the options for indexes are used: ``index_memory_bytes``,
            ``key_chunk_rows``, ``restart_interval``, ``threads``.
        progress: ``True`` for a progress bar, or a function ``progress(rows_done, rows_total)``.
        filesystem: :class:`pyarrow.fs.FileSystem` or fsspec file system of both paths.

    Returns:
        All indexes of the new file.

    Raises:
        InvalidArgumentError: the file already has this index, or a column does not exist.
        CorruptFileError: a part of the file that must be read is damaged.
        OSError: a file cannot be read or written.

    Cost: decodes the indexes' columns once and copies the file; memory is bounded by
        ``index_memory_bytes``.
    """
    with closing(open_source(path, filesystem=filesystem)) as file:
        specs = index_specs(file.schema, index)  # type: ignore[arg-type]
        if not specs:
            raise InvalidArgumentError("index: expected at least one")
        new_indexes = [index] if isinstance(index, AnyIndex) else list(index)
        for new in new_indexes:
            if isinstance(new, VectorIndex):
                if file.handle.vector_number(new.column) is not None:
                    raise InvalidArgumentError(
                        f"{os.fspath(path)} has a vector index on {new.column!r} already"
                    )
                continue
            for old in file.handle.indexes:
                if _is(file, old, new):
                    raise InvalidArgumentError(
                        f"{os.fspath(path)} has the index {old} already; indexes of this file: "
                        f"{names_of(file.handle.indexes)}"
                    )
        return rewrite_indexes(file, path, output, [], specs, options, progress, filesystem)


def drop_index(
    path: Path,
    index: str | Sequence[ColumnName] | AnyIndex | IndexInfo,
    *,
    output: Path | None = None,
    filesystem: FileSystem | None = None,
) -> list[IndexInfo]:
    """Drops secondary indexes of a file without encoding its rows again.

    Args:
        path: an existing file; a URI, or a path in ``filesystem``.
        index: a :class:`HashIndex`, :class:`SortedIndex` or :class:`VectorIndex`, or an entry of
            :attr:`File.indexes`. A list of columns in order drops all secondary indexes on exactly
            these columns.
        output: path of the new file; ``None`` replaces the old one.
        filesystem: :class:`pyarrow.fs.FileSystem` or fsspec file system of both paths.

    Returns:
        The remaining indexes.

    Raises:
        IndexUnavailableError: the index does not exist; the message lists the existing ones.
        InvalidArgumentError: the index is the cluster index, which cannot be dropped.
        OSError: a file cannot be read or written.

    Cost: copies the file.
    """
    with closing(open_source(path, filesystem=filesystem)) as file:
        vector = _vector_number(file, index)
        matching = (
            []
            if isinstance(index, VectorIndex)
            else [old for old in file.handle.indexes if _is(file, old, index)]
        )
        drop = [old.number for old in matching if old.number != CLUSTER]
        if vector is not None:
            drop.append(vector)
        if not drop and matching:
            raise InvalidArgumentError(
                f"{matching[0]} cannot be dropped: it is the order of the rows; rewrite the file"
            )
        if not drop:
            raise IndexUnavailableError(
                f"{os.fspath(path)} has no such index; indexes of this file: "
                f"{names_of(file.handle.indexes)}"
            )
        return rewrite_indexes(file, path, output, drop, [], None, None, filesystem)


def _vector_number(file: FileSource, index: Any) -> int | None:
    """Returns the number of the vector index that ``index`` names; ``None`` if it does not exist.

    Vector indexes are numbered after all other secondary indexes.
    """
    name = index
    if isinstance(index, (VectorIndex, IndexInfo)):
        if getattr(index, "kind", "vector") != "vector":
            return None
        key = index.columns[0]
        name = key.column if isinstance(key, SortKey) else key
    elif isinstance(index, (HashIndex, SortedIndex)):
        return None
    elif not isinstance(index, str):
        names = list(index)
        name = names[0] if len(names) == 1 else None
    number = file.handle.vector_number(name) if isinstance(name, str) else None
    return None if number is None else len(file.handle.core.indexes) + number


def _is(
    file: FileSource,
    index: Index,
    requested: str | Sequence[ColumnName] | HashIndex | SortedIndex | IndexInfo,
) -> bool:
    """Returns whether ``requested`` describes this index of the file."""
    if isinstance(requested, (HashIndex, SortedIndex, IndexInfo)):
        kind = (
            "sorted" if isinstance(requested, SortedIndex) else getattr(requested, "kind", "hash")
        )
        keys, orders = as_sort_keys(requested.columns), [_order(key) for key in index.keys]
        if index.kind != kind or orders != [_order(key) for key in keys]:
            return False
    else:
        keys = as_sort_keys(requested)
    return index.columns == tuple(resolve_column(file.schema, key.column) for key in keys)


def _order(key: SortKey) -> tuple[bool, bool]:
    return key.descending, key.nulls_first


def rewrite_indexes(
    file: FileSource,
    path: Path,
    output: Path | None,
    drop: list[int],
    specs: list[dict[str, Any]],
    options: WriteOptions | None,
    progress: ProgressArg,
    filesystem: Any,
) -> list[IndexInfo]:
    """Writes a copy of a file without the indexes ``drop``, and with the indexes ``specs``."""
    target = path if output is None else output
    location = locate(target, filesystem)
    chosen = options or WriteOptions()
    core_options = {
        "indexes": specs,
        "index_memory_bytes": chosen.index_memory_bytes,
        "key_chunk_rows": chosen.key_chunk_rows,
        "restart_interval": min(chosen.restart_interval, 2**31 - 1),
        "spill_directory": location.spill_folder,
        "threads": chosen.threads or 0,
    }
    rewriter = _core.IndexRewriter(file.handle.core, location.sink(), drop, core_options)
    bar = Progress(progress, file.num_rows)
    bar.stage("reading keys")
    try:
        while rows := rewriter.step():
            bar.advance(rows)
        bar.stage("building indexes")
        rewriter.finish()
    finally:
        rewriter.close()
        bar.finish()
    with closing(open_source(target, filesystem=filesystem)) as rewritten:
        _log.info("wrote %s: its indexes are now %s", target, names_of(rewritten.handle.indexes))
        return list(rewritten.indexes)
