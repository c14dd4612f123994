"""ParquetIndex: the handle on Parquet files with an index."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from nimblepy import _core
from nimblepy.errors import CorruptFileError, InvalidArgumentError, StaleFileError
from nimblepy.file.open import open_source
from nimblepy.file.source import FileSource
from nimblepy.file.versions import VersionedRows
from nimblepy.foreign.build import write_index
from nimblepy.foreign.child import FileChangedError
from nimblepy.foreign.listing import Paths
from nimblepy.foreign.records import (
    HASH,
    ROW,
    FileRecord,
    IndexRecord,
    check_same_schema,
    file_version,
    hash_bits_for,
    record_of,
    schema_of,
)
from nimblepy.foreign.source import IndexedFiles, absolute
from nimblepy.io.fork import ForkLock
from nimblepy.io.location import FileSystem, locate
from nimblepy.io.progress import ProgressArg
from nimblepy.io.time_limit import checked_timeout
from nimblepy.rows.html import html_rows
from nimblepy.rows.rows import Position
from nimblepy.schema.types import format_bytes

P = ParamSpec("P")
T = TypeVar("T")

# How many times a call is repeated because a file changed during the call.
_ATTEMPTS = 4


def _again_if_changed(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], T]:
    """If a file changed, indexes it for this handle and calls the method again."""

    @functools.wraps(method)
    def call(self: ParquetIndex, /, *args: P.args, **keywords: P.kwargs) -> T:
        for _ in range(_ATTEMPTS):
            try:
                return method(self, *args, **keywords)
            except FileChangedError as error:
                self._index_changed(error.path)
        return method(self, *args, **keywords)

    return call


class ParquetIndex(VersionedRows[IndexedFiles]):
    """Parquet files of others with a nimble index, read-only. Thread-safe.

    Made by :func:`nimblepy.index_files`, or by :func:`nimblepy.open` of an index file. Rows are
    numbered over all files, in the order of :attr:`paths`. Calls without ``on`` use the key of the
    index. Lookups read single pages. A handle reads the files that existed when it was opened or
    last refreshed. If a read finds that a file changed, the handle indexes the file again for
    itself. If a file was removed, reads raise :class:`~nimblepy.errors.StaleFileError`.
    """

    def __init__(
        self,
        path: str,
        index: FileSource,
        record: IndexRecord,
        options: dict[str, Any],
    ) -> None:
        self._path = path
        self._options = options
        self._paths = self._paths_of(record)
        self._pages = _core.ParquetPages(options["cache_bytes"])
        self._refreshing = ForkLock()
        # The files at open or at the last refresh. The current source may have newer records of
        # them.
        self._known = record.files
        # Files whose footer changed, but not their version.
        self._changed_unseen: set[str] = set()
        super().__init__(Position(self._source_of(index, record)))

    def _paths_of(self, record: IndexRecord) -> Paths:
        options = self._options
        return Paths(record.paths, options["filesystem"], options["timeout"], self._path)

    def _source_of(self, index: FileSource, record: IndexRecord) -> IndexedFiles:
        pickled = _reopened_source, (self._path, self._options)
        return IndexedFiles(self._path, index, record, self._paths, self._pages, pickled)

    @property
    def paths(self) -> list[str]:
        """Paths or URIs of the files, in the order of their rows."""
        return list(self._current.paths)

    @property
    def stale(self) -> list[str]:
        """Paths of files that were changed, added or removed since open or the last refresh.

        It is empty if :meth:`refresh` would change nothing. Cost: lists the files, and calls
        ``stat`` for each file, or sends one request per file to a store.
        """
        _ = self._current.schema  # raises if the handle is closed
        known = {file.path: file.version for file in self._known}
        now = self._versions_now()
        changed = [path for path in {**known, **now} if known.get(path) != now.get(path)]
        return sorted(changed)

    def _versions_now(self) -> dict[str, str]:
        versions = {}
        for path in self._listed():
            try:
                versions[path] = file_version(self._paths, path)
            except FileNotFoundError:  # removed after it was listed
                continue
        return versions

    def _listed(self) -> list[str]:
        """Returns the files that exist. Ignores given paths without a file."""
        found: dict[str, None] = {}
        for given in self._paths.given:
            one = replace(self._paths, given=(given,))
            try:
                found.update(dict.fromkeys(one.listed()))
            except FileNotFoundError:
                continue
        return sorted(found)

    def refresh(self) -> ParquetIndex:
        """Indexes changed and new files, and drops removed files. Returns this handle.

        Replaces the index file atomically. Other threads may use the handle during the call.

        Raises:
            OSError, CorruptFileError, InvalidArgumentError: see :func:`nimblepy.index_files`. The
                handle does not change.

        Cost: see :attr:`stale`. If a file changed, also reads the key columns of new files and
            writes the whole index.
        """
        with self._refreshing.native:
            current = self._current
            # Open it once: another process may replace the file, and the entries and the record
            # must be from the same file.
            index, record = old = open_index(self._path, self._options)
            self._paths = self._paths_of(record)
            files = self._described(record, self._listed())
            if files != list(record.files):
                record = _checked(record.with_files(files))
                write_index(
                    self._path, record, self._paths, old, filesystem=self._options["filesystem"]
                )
                index, record = open_index(self._path, self._options)
            self._known = record.files
            self._changed_unseen.clear()
            if record == current.record:
                return self
            source = self._source_of(index, record)
            self._replace_position(lambda _: Position(source))
        return self

    def _described(self, record: IndexRecord, listed: Sequence[str]) -> list[FileRecord]:
        """Returns records of the files. Reads only files whose version is not in ``record``."""
        known = {file.path: file for file in record.files}
        files = []
        for path in listed:
            old = known.get(path)
            try:
                is_changed = path in self._changed_unseen
                if old is None or is_changed or file_version(self._paths, path) != old.version:
                    files.append(record_of(self._paths, path))
                else:
                    files.append(old)
            except FileNotFoundError:
                continue
        return files

    def _index_changed(self, path: str) -> None:
        """Indexes changed files again, in a temporary index file that only this handle uses.

        Args:
            path: a file that a read found changed. Its version may be the same, because programs
                can set modification times.
        """
        with self._refreshing.native:
            current = self._current
            files = []
            for file in current.record.files:
                try:
                    is_same = file_version(self._paths, file.path) == file.version
                    if is_same and file.path != path:
                        files.append(file)
                        continue
                    files.append(record_of(self._paths, file.path))
                    if is_same and files[-1] != file:
                        self._changed_unseen.add(path)
                except FileNotFoundError:
                    files.append(file)  # reading it raises StaleFileError
            if tuple(files) == current.record.files:
                self._renew(current)
                return
            record = current.record.with_files(files)
            for file, old in zip(files, current.record.files, strict=True):
                if file != old and not schema_of(file).equals(record.schema):
                    raise StaleFileError(
                        f"{file.path}: the file changed after it was indexed, and has other "
                        "columns; nb.index_files makes a new index of files with equal columns"
                    )
            handle, path = tempfile.mkstemp(suffix=".nbx")
            os.close(handle)
            try:
                write_index(path, record, self._paths, (current.index, current.record))
                with open(path, "rb") as made:
                    content = made.read()
            finally:
                os.unlink(path)
            source = self._source_of(open_source(content), record)
            self._replace_position(lambda _: Position(source))

    def _renew(self, current: IndexedFiles) -> None:
        """Opens the files again. They were changed, but now have their indexed version again."""
        source = self._source_of(current.index, current.record)
        self._replace_position(lambda _: Position(source))

    def close(self) -> None:
        """Closes the index. Calls after that raise an InvalidArgumentError."""
        self._release()
        self._position.rows.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return open_parquet_index, (self._path, self._options)

    def __repr__(self) -> str:
        try:
            return repr(self._position.rows)
        except InvalidArgumentError:
            return f"<nimblepy.ParquetIndex {self._path!r}, closed>"

    def _repr_html_(self) -> str:
        rows = self._position.rows
        try:
            schema = rows.schema
        except InvalidArgumentError:
            return html_rows(repr(self), {}, None)
        return html_rows(
            f"ParquetIndex {self._path}",
            {
                "files": rows.num_files,
                "rows": rows.num_rows,
                "index": format_bytes(rows.index.size_bytes),
            },
            schema,
            list(rows.record.keys),
            None,
        )

    def _checked_scan(self) -> None:
        self._current.check()


for _name in (
    *("get", "lookup", "contains", "count", "range", "prefix", "page", "row_ranges", "take"),
    *("head", "sample", "to_table", "to_pandas", "count_rows", "explain", "index_join"),
    *("asof_join", "verify"),
):
    setattr(ParquetIndex, _name, _again_if_changed(getattr(VersionedRows, _name)))


def _asof(self: ParquetIndex, key: Any, columns: Any = None, *, on: Any = None, **rest: Any) -> Any:
    if on is None:
        on = [key.column for key in self._current.index_keys(None, ordered=True)]
    return VersionedRows.asof(self, key, columns, on=on, **rest)


def _scan(self: ParquetIndex, *args: Any, **keywords: Any) -> Any:
    self._checked_scan()
    return VersionedRows.scan(self, *args, **keywords)


ParquetIndex.asof = _again_if_changed(functools.wraps(VersionedRows.asof)(_asof))  # type: ignore[method-assign, assignment]
ParquetIndex.scan = _again_if_changed(functools.wraps(VersionedRows.scan)(_scan))  # type: ignore[method-assign, assignment]


def open_index(path: str, options: dict[str, Any]) -> tuple[FileSource, IndexRecord]:
    """Opens an index file, and reads its description.

    Raises:
        InvalidArgumentError: the file is a nimble file, but not an index of Parquet files.
    """
    index = open_source(
        path,
        filesystem=options["filesystem"],
        mmap=options["mmap"],
        cache_bytes=options["cache_bytes"],
        timeout=options["timeout"],
    )
    record = IndexRecord.from_metadata(index.metadata, path)
    if record is None:
        raise InvalidArgumentError(
            f"{path}: a nimble file with rows of its own, not an index of Parquet files"
        )
    return index, record


def open_parquet_index(path: str, options: dict[str, Any]) -> ParquetIndex:
    """Opens an index file; see :func:`nimblepy.open` for the options."""
    return ParquetIndex(path, *open_index(path, options), options)


def _reopened_source(path: str, options: dict[str, Any]) -> IndexedFiles:
    return open_parquet_index(path, options)._current


def _checked(record: IndexRecord) -> IndexRecord:
    """Checks that the files have the columns of the index."""
    if record.files:
        schema = check_same_schema(record.files)
        if not schema.equals(record.schema):
            raise InvalidArgumentError(
                f"{record.files[0].path}: the columns differ from those that were indexed; "
                "remove the index file and call nb.index_files again"
            )
    return record


def index_files(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    key: str | Sequence[str],
    kind: Literal["sorted", "hash"] = "sorted",
    filesystem: FileSystem | None = None,
    progress: ProgressArg = None,
    timeout: float | None = None,
) -> ParquetIndex:
    """Indexes Parquet files without changing them, or brings their index up to date.

    The index is one file. For each row, it has the key or its hash, and the row's place. It also
    has the footers and page positions of all files, so a lookup reads a few pages and no footer.

    Args:
        paths: a pattern (``"lake/*.parquet"``), a directory, or a list of paths. Directories are
            searched recursively.
        target: path of the index file, for example ``"events.nbx"``. If an index with the same key
            and kind exists there, only changed and new files are read.
        key: top-level columns of the key, in order.
        kind: ``"sorted"`` (equality, prefixes, ranges, as-of) or ``"hash"`` (equality; it does not
            store keys, and reads them from the files).
        filesystem: file system of ``paths`` and ``target``.
        progress: ``True`` for a progress bar, or called as ``progress(rows_done, None)``.
        timeout: time limit of one read call to a store, in seconds.

    Raises:
        InvalidArgumentError: a column does not exist, or a file's columns differ from those of the
            first file.
        CorruptFileError: a Parquet file is damaged; the message names it.
        OSError: a path does not exist.

    Cost: reads the key columns of all files, their footers, and their offset indexes or page
        headers.
    """
    if kind not in ("sorted", "hash"):
        raise InvalidArgumentError(f"kind: expected 'sorted' or 'hash', got {kind!r}")
    names = (key,) if isinstance(key, str) else tuple(key)
    if not names or len(set(names)) < len(names) or not all(isinstance(n, str) for n in names):
        raise InvalidArgumentError(f"key: expected different column names, got {key!r}")
    timeout = checked_timeout(timeout)
    location = locate(target, filesystem, timeout=timeout)
    path = absolute(target, location.is_local)
    options = {
        "filesystem": filesystem,
        "mmap": True,
        "cache_bytes": 256 << 20,
        "timeout": timeout,
    }
    given = Paths.of(paths, filesystem, timeout, target=path)
    listed = given.listed()
    if not listed:
        raise InvalidArgumentError(f"paths: {', '.join(given.given)}: no Parquet file found")
    old = _old_index(path, location.exists(), options, names, kind)
    known = {} if old is None else {file.path: file for file in old[1].files}
    files = []
    for name in listed:
        before = known.get(name)
        is_known = before is not None and file_version(given, name) == before.version
        files.append(before if before is not None and is_known else record_of(given, name))
    schema = check_same_schema(files)
    for name in names:
        if name not in schema.names:
            raise InvalidArgumentError(
                f"key: no column {name!r}; the files have {', '.join(schema.names)}"
            )
    num_rows = sum(file.num_rows for file in files)
    hash_bits = hash_bits_for(num_rows)
    if old is not None:
        hash_bits = old[1].hash_bits
        if old[1].schema != schema:
            old = None
    record = IndexRecord(names, kind, hash_bits, given.given, tuple(files), schema)
    if {ROW, HASH} & set(names):
        raise InvalidArgumentError(f"key: the names {ROW} and {HASH} are reserved")
    if old is None or old[1] != record:
        write_index(path, record, given, old, filesystem=filesystem, progress=progress)
    return open_parquet_index(path, options)


def _old_index(
    path: str, exists: bool, options: dict[str, Any], key: tuple[str, ...], kind: str
) -> tuple[FileSource, IndexRecord] | None:
    """Returns the index at ``path`` if it exists and has the same key and kind.

    Raises:
        InvalidArgumentError: the file at ``path`` is not an index of Parquet files.
    """
    if not exists:
        return None
    try:
        index, record = open_index(path, options)
    except CorruptFileError as error:
        raise InvalidArgumentError(
            f"{path}: the file is not an index of Parquet files, and is not replaced"
        ) from error
    return (index, record) if (record.keys, record.kind) == (key, kind) else None
