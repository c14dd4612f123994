"""Resolves inputs (files, a directory, a glob or a table) on the driver."""

from __future__ import annotations

import glob
import hashlib
import os
import posixpath
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from nimblepy.cached import cached_property
from nimblepy.errors import InvalidArgumentError
from nimblepy.file.file import File
from nimblepy.files.dataset import (
    Dataset,
    DatasetSource,
    open_child,
    open_dataset,
    path_of_dataset,
    resolve_directory,
    source_of_dataset,
)
from nimblepy.files.listing import FileList, Footers
from nimblepy.files.source import FilesSource
from nimblepy.io.location import is_uri
from nimblepy.rows.source import Filter

if TYPE_CHECKING:
    from nimblepy.table.reading.members import MemberRows
    from nimblepy.table.table import Table

_OPTIONS: dict[str, Any] = {
    "filesystem": None,
    "mmap": True,
    "cache_bytes": 64 << 20,
    "max_open_files": 64,
    "timeout": None,
}


InputPath: TypeAlias = (
    "str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | File | Dataset | Table"
)


@dataclass(frozen=True, eq=False)
class InputFiles:
    """The files that the driver found. Instances are sent to the workers.

    Attributes:
        directory: path or URI; the names of the files are relative to it.
        files: the list of files.
    """

    directory: str
    files: FileList

    @cached_property
    def dataset(self) -> DatasetSource:
        """The dataset of these files. Opened once per process."""
        return source_of_dataset(Dataset(self.directory, self.files, dict(_OPTIONS)))

    @cached_property
    def key(self) -> tuple[str, str]:
        """Identifies these versions of the files."""
        digest = hashlib.sha256()
        for name, identity in zip(self.files.names, self.files.identities, strict=True):
            digest.update(f"{name}\0{identity}\0".encode())
        return self.directory, digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InputFiles) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __reduce__(self) -> tuple[Any, ...]:
        return InputFiles, (self.directory, self.files)

    def for_filter(self, filter: Filter) -> InputFiles:
        """Returns ``self``: the list of files is pruned when it is read."""
        return self


class InputTable:
    """The files of one snapshot of a table. Instances are sent to the workers.

    Workers get a description of the files; they need neither the catalog nor the metadata.

    Attributes:
        name: name of the table.
    """

    def __init__(self, name: str, *, rows: MemberRows | None = None, text: str | None = None):
        self.name = name
        self._rows = rows
        self._text = text

    @cached_property
    def dataset(self) -> MemberRows:
        """The rows of these files."""
        if self._rows is not None:
            return self._rows
        from nimblepy.table.reading.shipped import rows_of_text

        assert self._text is not None
        return rows_of_text(self._text)

    @cached_property
    def text(self) -> str:
        """The description for the workers. Cost: plans the snapshot."""
        if self._text is not None:
            return self._text
        from nimblepy.table.reading.shipped import rows_as_text

        return rows_as_text(self.dataset)

    @property
    def directory(self) -> str:
        return self.name

    @cached_property
    def key(self) -> tuple[str, str]:
        """Identifies these files."""
        return self.name, hashlib.sha256(self.text.encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InputTable) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __reduce__(self) -> tuple[Any, ...]:
        return _shipped_table, (self.name, self.text)

    def for_filter(self, filter: Filter) -> InputTable:
        """The files that may contain matching rows."""
        return InputTable(self.name, rows=self.dataset.for_filter(filter))


def _shipped_table(name: str, text: str) -> InputTable:
    return InputTable(name, text=text)


SparkInput: TypeAlias = InputFiles | InputTable


@lru_cache(maxsize=8)
def open_cached(files: SparkInput) -> FilesSource:
    """The dataset of these files, cached between tasks of one worker process.

    Spark starts a worker process per core and reuses it. Local files are mapped, so the workers of
    a host share their pages.
    """
    return files.dataset


def find_input(path: InputPath) -> SparkInput:
    """Resolves a path or handle to files.

    Args:
        path: a file, a directory, a glob, or a list of files. A
            :class:`File` or :class:`Dataset` that was opened by path is allowed. A
            :class:`Table` stands for its current snapshot.

    Raises:
        FileNotFoundError: the path does not exist; the message names it.
        InvalidArgumentError: files have different columns or keys; the message names two of them.
        CorruptFileError: a file is damaged; the message names it.
    """
    if is_table(path):
        from nimblepy.table.handle import files_of

        table = cast("Table", path)
        return InputTable(table.name, rows=files_of(table))
    if isinstance(path, (File, Dataset)):
        place = path_of_dataset(path) if isinstance(path, Dataset) else path.source
        if place is None:
            raise InvalidArgumentError(
                f"{path!r} was not opened by path or URI, so executors cannot open it; pass a path"
            )
        if isinstance(path, Dataset):
            return InputFiles(place, source_of_dataset(path).files)
        path = place
    paths = [path] if isinstance(path, (str, os.PathLike)) else list(cast("Sequence[Any]", path))
    texts = [local_path(os.fspath(item)) for item in paths]
    if not texts:
        raise InvalidArgumentError("path: got an empty list; expected at least one path")
    files: list[str] = []
    for text in texts:
        if is_uri(text):
            if resolve_directory(text).is_directory():
                return _directory_input(text, len(texts))
            files.append(text)
        elif os.path.isdir(text):
            return _directory_input(os.path.abspath(text), len(texts))
        elif os.path.exists(text):
            files.append(os.path.abspath(text))
        else:
            files += _globbed(text)
    return _file_input(files)


def is_table(given: object) -> bool:
    """Whether ``given`` is a :class:`Table`. Does not import the table package."""
    module = sys.modules.get("nimblepy.table.table")
    return module is not None and isinstance(given, module.Table)


def local_path(text: str) -> str:
    """Converts ``file:`` URIs to paths; returns other text unchanged."""
    return (
        text.removeprefix("file://") if text.startswith("file:///") else text.removeprefix("file:")
    )


def _globbed(text: str) -> list[str]:
    matches = sorted(os.path.abspath(name) for name in glob.glob(text) if os.path.isfile(name))
    if not matches:
        what = "no file matches" if glob.has_magic(text) else "no such file or directory"
        raise FileNotFoundError(f"{text}: {what} (every executor must see the same path)")
    return matches


def _directory_input(directory: str, given: int) -> InputFiles:
    if given > 1:
        raise InvalidArgumentError(
            f"path: {directory} is a directory; give one directory, or a list of files"
        )
    dataset = source_of_dataset(open_dataset(directory, **_OPTIONS))
    files = InputFiles(directory, dataset.files)
    files.__dict__["dataset"] = dataset  # reuse the open dataset
    return files


def _file_input(files: list[str]) -> InputFiles:
    if any(is_uri(name) for name in files):
        directory = posixpath.dirname(files[0])
        if any(posixpath.dirname(name) != directory for name in files):
            raise InvalidArgumentError("path: remote files must be in one directory")
    else:
        directory = os.path.commonpath([os.path.dirname(name) for name in files])
    names = [posixpath.relpath(name, directory) for name in dict.fromkeys(files)]
    location = resolve_directory(directory)
    footers = Footers(
        location, directory, partial(open_child, location, mmap=False, cache_bytes=1 << 20)
    )
    return InputFiles(directory, footers.of_files(names))
