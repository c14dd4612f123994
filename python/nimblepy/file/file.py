"""Reading files: :func:`open` gives a :class:`File`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nimblepy import _core
from nimblepy.errors import InvalidArgumentError
from nimblepy.file.key_lookups import KeyLookups
from nimblepy.file.secondary import prefix_places, rows_at
from nimblepy.io.location import is_uri, locate
from nimblepy.io.remote_file import REMOTE_GAP
from nimblepy.rows.closing import Scoped
from nimblepy.rows.explain import explain_keys, explain_rows, explain_scan, explain_secondary
from nimblepy.rows.plan import Plan
from nimblepy.rows.scan import Scan

__all__ = ["File", "Scan", "open"]


def open(
    source: Any,
    *,
    filesystem: Any = None,
    mmap: bool = True,
    cache_bytes: int = 256 << 20,
    verify: str = "lazy",
    record: str | os.PathLike[str] | None = None,
) -> File:
    """Opens a file for scans and lookups.

    Args:
        source: a path, a URI (``s3://...``), bytes, memoryview, :class:`pyarrow.Buffer`, or a
            seekable binary file object.
        filesystem: :class:`pyarrow.fs.FileSystem`, fsspec file system or obstore store of
            ``source``.
        mmap: map a local file into memory; otherwise it is read with ``pread``. A mapped file must
            not be truncated in place while it is open (replacing it by renaming is safe).
        cache_bytes: bound on index groups and on blocks of files that are not mapped.
        verify: ``"lazy"`` checks the checksum of every part when it is first used; ``"full"``
            checks the whole file now.
        record: append the shape of every question to this local file, for
            :func:`nimblepy.advise_indexes`: columns, operators and how many rows were found, never
            a value. At most 1 MiB; threads and processes may share it. Without it nothing is done.

    Raises:
        CorruptFileError: not a nimblepy file, or a damaged one.
        UnsupportedVersionError: written by a newer version.
        OSError: the file is missing or cannot be read.
        StaleFileError: raised by later reads of a remote file that was replaced since.

    Cost: one read of the file's last 64 KiB (footers larger than that: one more).
    """
    if verify not in ("lazy", "full"):
        raise InvalidArgumentError(f"verify: expected 'lazy' or 'full', got {verify!r}")
    if isinstance(cache_bytes, bool) or not isinstance(cache_bytes, int) or cache_bytes < 0:
        raise InvalidArgumentError(f"cache_bytes: expected an int >= 0, got {cache_bytes!r}")
    core = _open_core(source, filesystem, mmap, cache_bytes)
    if isinstance(source, (str, os.PathLike)) and filesystem is None:
        source = _absolute(os.fspath(source))  # a pickle of the file outlives a chdir()
    arguments = {"filesystem": filesystem, "mmap": mmap, "cache_bytes": cache_bytes}
    if record is None:
        file = File(core, source, arguments)
    else:
        from nimblepy.advise.recording import RecordingFile

        log = os.path.abspath(os.fspath(record))
        file = RecordingFile(core, source, {**arguments, "record": log})
    if verify == "full":
        file.verify()
    return file


def _open_core(source: Any, filesystem: Any, mmap: bool, cache_bytes: int) -> Any:
    if isinstance(source, (str, os.PathLike)):
        location = locate(source, filesystem)
        if location.is_local:
            return _core.open_path(location.path, mmap, cache_bytes)
        return _core.open_python(location.open(), location.path, REMOTE_GAP, cache_bytes)
    if isinstance(source, (bytes, bytearray, memoryview, pa.Buffer)):
        return _core.open_buffer(source, cache_bytes)
    if hasattr(source, "read") and hasattr(source, "seek"):
        name = getattr(source, "name", None)
        shown = name if isinstance(name, str) else f"<{type(source).__name__}>"
        return _core.open_python(source, shown, 4096, cache_bytes)
    raise InvalidArgumentError(
        "source: expected a path, URI, bytes, pyarrow.Buffer or a seekable binary file, "
        f"got {type(source).__name__}"
    )


class File(KeyLookups, Scoped):
    """An open file. Any number of threads may use one; it pickles by reopening its source.

    Rows are numbered from 0 in file order. Results are :class:`pyarrow.Table`; ``columns`` takes
    names and dotted paths of struct fields (``location.lat``), ``None`` is all columns.
    """

    def take(self, rows: Any, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows by their file position, in the given order, repeats included.

        Args:
            rows: non-negative integers: list, numpy array or Arrow array.

        Raises:
            InvalidArgumentError: a row that the file does not have.
        """
        return self._take(_row_numbers(rows, self.num_rows), columns)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        filter: pc.Expression | str | None = None,
        row_range: tuple[int, int] | None = None,
        batch_rows: int = 65536,
        threads: int | None = None,
        limit: int | None = None,
    ) -> Scan:
        """A scan, to be run by its ``to_table``, ``to_batches``, ``to_reader`` or ``count``.

        Args:
            filter: a pyarrow expression or SQL text; answered by the cluster index, then zone
                maps, then exact evaluation of what is left.
            row_range: half-open file rows to look at.
            batch_rows: most rows of a batch.
            threads: threads that decode; ``None`` is one a processor.
            limit: most rows to return.
        """
        return Scan(
            self,
            columns=columns,
            filter=filter,
            row_range=row_range,
            batch_rows=batch_rows,
            threads=threads,
            limit=limit,
        )

    def to_table(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | str | None = None,
    ) -> pa.Table:
        """All rows, or those that pass ``filter``, in file order."""
        return self.scan(columns, filter=filter).to_table()

    def to_pandas(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | str | None = None
    ) -> Any:
        """:meth:`to_table` as a pandas DataFrame."""
        return self.to_table(columns, filter).to_pandas()

    def explain(
        self,
        keys: Any = None,
        *,
        on: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        lower: Any = None,
        upper: Any = None,
        inclusive: str = "[)",
        prefix: Any = None,
        filter: pc.Expression | str | None = None,
        row_range: tuple[int, int] | None = None,
    ) -> Plan:
        """What a lookup (``keys``), range, prefix or scan would touch. Prints as a tree.

        Cost: the index is really searched, so that row ranges are exact; no data is read.
        """
        asked = on is not None or keys is not None or prefix is not None
        index = self._secondary(on, ordered=keys is None) if asked and filter is None else None
        if index is not None:
            if keys is not None:
                one = not _is_many(keys)
                ends, found_rows = self._find_in(index, [keys] if one else keys, on, False, one=one)
                return explain_secondary(
                    self, index, "lookup", found_rows, columns, probes=len(ends)
                )
            if prefix is not None:
                places = prefix_places(self, index, on, prefix)
            else:
                places = self._range_places(index, on, lower, upper, inclusive)
            kind = "prefix" if prefix is not None else "range"
            return explain_secondary(self, index, kind, rows_at(self, index, places), columns)
        if keys is not None:
            many = keys if _is_many(keys) else [keys]
            ranges, found = self._find(many, on, False, one=many is not keys)
            return explain_keys(self, ranges, found, columns)
        if prefix is not None:
            rows = self._prefix_rows(prefix, on)
            return explain_rows(self, "prefix", rows, columns)
        if lower is not None or upper is not None:
            rows = self._range_rows(lower, upper, on, inclusive)
            return explain_rows(self, "range", rows, columns)
        return explain_scan(self.scan(columns, filter=filter, row_range=row_range))

    # ------------------------------------------------------------------ housekeeping

    def close(self) -> None:
        """Lets go of the file; results that were handed out stay valid."""
        self._core = None
        self._projections.clear()
        self._points.clear()
        self._quick = None
        self._range_readers.clear()

    def __len__(self) -> int:
        return self.num_rows

    def __reduce__(self) -> tuple[Any, ...]:
        if not isinstance(self._source, (str, os.PathLike, bytes)):
            raise TypeError(
                f"a File over {type(self._source).__name__} cannot be pickled: only paths and "
                "bytes can be opened again"
            )
        return _reopen, (self._source, self._arguments)

    def __repr__(self) -> str:
        if self._core is None:
            return "<nimblepy.File, closed>"
        key = f", cluster by {', '.join(map(str, self._keys))}" if self._keys else ""
        return (
            f"<nimblepy.File {self._core.name!r}: {self.num_rows:,} rows, "
            f"{len(self._schema)} columns{key}>"
        )


def _reopen(source: Any, arguments: dict[str, Any]) -> File:
    return open(source, **arguments)


def _absolute(path: str) -> str:
    return path if is_uri(path) else os.path.abspath(path)


def _is_many(keys: Any) -> bool:
    if isinstance(keys, (str, bytes, tuple, Mapping)):
        return False
    return isinstance(keys, Sequence) or hasattr(keys, "__len__") or hasattr(keys, "__iter__")


def _row_numbers(rows: Any, num_rows: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    if isinstance(rows, (pa.Array, pa.ChunkedArray)):
        if rows.null_count:
            raise InvalidArgumentError("rows: nulls are no row numbers")
        rows = (
            rows.to_numpy(zero_copy_only=False) if isinstance(rows, pa.Array) else rows.to_numpy()
        )
    array = np.asarray(rows)
    if array.size == 0:
        return np.empty(0, dtype=np.uint64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidArgumentError(f"rows: expected integers in one dimension, got {array.dtype}")
    if array.dtype.kind == "i" and int(array.min()) < 0:
        raise InvalidArgumentError(f"rows: {int(array.min())} is below 0")
    if int(array.max()) >= num_rows:
        raise InvalidArgumentError(f"rows: {int(array.max())} of a file of {num_rows} rows")
    return array.astype(np.uint64)
