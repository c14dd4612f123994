"""Decodes rows that a server sent as encoded blocks of its files."""

from __future__ import annotations

import os
from collections import OrderedDict

import pyarrow as pa

from nimblepy import _core
from nimblepy.errors import (
    CorruptFileError,
    ReplyTooLargeError,
    StaleFileError,
    UnsupportedVersionError,
)
from nimblepy.io.fork import ForkLock
from nimblepy.serving.resp_client import Connection

# Bytes and number of files to keep in memory, to avoid requesting their metadata again. The number
# is limited too, because an open file needs more memory than its bytes.
_KEPT_BYTES = 64 << 20
_KEPT_FILES = 32
_CACHE_BYTES = 16 << 20


class CannotDecodeError(Exception):
    """This process cannot decode the reply, but the server can."""


class _File:
    """The parts of a file that the server has sent so far."""

    def __init__(self, identity: tuple[int, int], name: str) -> None:
        self.parts = _core.SparseFile(identity[1], name)
        self._file: _core.File | None = None
        self.projections: dict[tuple[tuple[int, ...], tuple[str, ...]], _core.Projection] = {}

    def projection(self, columns: list[int], names: list[str]) -> _core.Projection:
        key = tuple(columns), tuple(names)
        made = self.projections.get(key)
        if made is None:
            # Opening reads the footer, so the metadata must be filled in.
            file = self._open()
            paths: list[tuple[tuple[int, ...], str]] = [
                ((column,), name) for column, name in zip(columns, names, strict=True)
            ]
            made = self.projections[key] = _core.Projection(file, paths)
        return made

    def _open(self) -> _core.File:
        if self._file is None:
            self._file = self.parts.open(_CACHE_BYTES)
        return self._file


class RawReader:
    """Decodes the replies of one table. Thread-safe. Keeps 32 files, 64 MiB."""

    def __init__(self, connection: Connection, table: str) -> None:
        self._connection = connection
        self._table = table
        self._lock = ForkLock()
        self._files: OrderedDict[tuple[int, int], _File] = OrderedDict()
        self._process = os.getpid()

    def rows(self, reply: bytes, schema: pa.Schema) -> pa.Table:
        """Returns the rows of a reply ``AS RAW``, with the types of ``schema``.

        Raises:
            CannotDecodeError: this process cannot read the format, or has no address space; the
                server dropped a file before its metadata was read, or allows only small replies; or
                the columns have other types now.
            CorruptFileError: the reply is damaged.
        """
        try:
            frames = _core.raw_frames(reply)
        except UnsupportedVersionError as error:
            raise CannotDecodeError(str(error)) from error
        if len(frames) == 1 and not frames[0].is_raw:
            return _as_schema(read_arrow(frames[0].arrow), schema)
        parts = [schema.empty_table()]
        for frame in frames:
            rows = self._decoded(frame, schema) if frame.is_raw else read_arrow(frame.arrow)
            parts.append(_as_schema(rows, schema))
        return pa.concat_tables(parts)

    def _decoded(self, frame: _core.RawFrame, schema: pa.Schema) -> pa.Table:
        if len(frame.columns) != len(schema):
            raise CorruptFileError("raw reply: its columns differ from the requested columns")
        with self._lock.native:
            file = self._file(frame.file)
        try:
            missing = file.parts.missing(frame)
            if missing:
                words = [str(number) for part in missing for number in part]
                checksum, size = frame.file
                sent = self._connection.ask(
                    "NB.META", self._table, "FILE", str(checksum), str(size), *words
                )
                file.parts.fill(missing, sent)
            file.parts.fill_frame(frame)
            batch = frame.read(file.projection(frame.columns, schema.names))
        except (UnsupportedVersionError, StaleFileError, ReplyTooLargeError) as error:
            raise CannotDecodeError(str(error)) from error
        except BaseException:
            # Filled parts are never fetched again. They may be damaged, so drop the file.
            with self._lock.native:
                self._files.pop(frame.file, None)
            raise
        with self._lock.native:
            self._evict()
        return pa.Table.from_batches([pa.RecordBatch._import_from_c_capsule(*batch)])

    def _file(self, identity: tuple[int, int]) -> _File:
        """Returns the file and marks it as used last."""
        if self._process != os.getpid():  # a thread of the parent may have been in a file
            self._files = OrderedDict()
            self._process = os.getpid()
        file = self._files.get(identity)
        if file is None:
            try:
                file = _File(identity, f"{self._connection.address}/{self._table}")
            except OSError as error:
                raise CannotDecodeError(str(error)) from error
            self._files[identity] = file
        self._files.move_to_end(identity)
        return file

    def _evict(self) -> None:
        held = sum(file.parts.filled_bytes for file in self._files.values())
        while self._files and (held > _KEPT_BYTES or len(self._files) > _KEPT_FILES):
            _, file = self._files.popitem(last=False)
            held -= file.parts.filled_bytes


def read_arrow(reply: bytes | memoryview) -> pa.Table:
    """Returns the rows of an Arrow IPC stream."""
    with pa.ipc.open_stream(pa.py_buffer(reply)) as stream:
        return stream.read_all()


def _as_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Returns rows of blocks with the types of ``schema``: values instead of dictionaries.

    Raises:
        CannotDecodeError: the rows have other columns or types.
    """
    types, wanted = map(_plain_type, rows.schema.types), map(_plain_type, schema.types)
    if rows.schema.names != schema.names or list(types) != list(wanted):
        raise CannotDecodeError("the columns of the server's table have changed")
    return rows if rows.schema.equals(schema) else rows.cast(schema)


def _plain_type(type: pa.DataType) -> pa.DataType:
    """The type of the same values in Arrow replies, without an extension type's name."""
    if isinstance(type, pa.DictionaryType):
        return _plain_type(type.value_type)
    if isinstance(type, pa.BaseExtensionType):
        return _plain_type(type.storage_type)
    if pa.types.is_string_view(type):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(type) else type
