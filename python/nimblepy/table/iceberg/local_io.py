"""A FileIO for pyiceberg: opens files by their exact path, and syncs new files to disk."""

from __future__ import annotations

import contextlib
import io
import os
from typing import Any

from pyiceberg.io import FileIO, InputFile, OutputFile

from nimblepy.errors import (
    InvalidArgumentError,
)
from nimblepy.io.location import locate
from nimblepy.table.base.places import remove_file


def local_path(location: str) -> str | None:
    """Returns the path of a location on this machine; ``None`` for other locations."""
    if location.startswith("file:"):
        rest = location.removeprefix("file:")
        return rest[2:] if rest.startswith("//") else rest
    return None if "://" in location else location


class _LocalInput(InputFile):
    def __len__(self) -> int:
        return os.stat(_path(self.location)).st_size

    def exists(self) -> bool:
        return os.path.exists(_path(self.location))

    def open(self, seekable: bool = True) -> Any:
        return open(_path(self.location), "rb")  # the caller closes it


class _Synced(io.BufferedWriter):
    """A new file that is synced to disk on close, and removed if it cannot be written."""

    def __init__(self, path: str, mode: str) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        super().__init__(io.FileIO(path, mode))
        self._path = path

    def close(self) -> None:
        if not self.closed:
            self.flush()
            os.fsync(self.fileno())
        super().close()

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        if rest:
            self._name_file(rest[0])
        try:
            super().__exit__(kind, *rest)
        except BaseException as error:
            self._name_file(error)
            self._remove()
            raise
        if kind is not None:
            self._remove()

    def _name_file(self, error: BaseException | None) -> None:
        """Adds the path to errors of writes, such as a full disk, which do not contain it."""
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            error.filename = self._path

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            self.raw.close()
        with contextlib.suppress(OSError):
            os.remove(self._path)


class _LocalOutput(OutputFile):
    def __len__(self) -> int:
        return os.stat(_path(self.location)).st_size

    def exists(self) -> bool:
        return os.path.exists(_path(self.location))

    def to_input_file(self) -> InputFile:
        return _LocalInput(self.location)

    def create(self, overwrite: bool = False) -> Any:
        return _Synced(_path(self.location), "wb" if overwrite else "xb")


class _StoredInput(InputFile):
    def __len__(self) -> int:
        return locate(self.location).open().size()

    def exists(self) -> bool:
        return locate(self.location).exists()

    def open(self, seekable: bool = True) -> Any:
        return io.BytesIO(locate(self.location).read())


class _Stored(io.BytesIO):
    """A new object of a store, which is created when this file is closed without an error."""

    def __init__(self, location: str) -> None:
        super().__init__()
        self._location = location

    def close(self) -> None:
        if not self.closed:
            locate(self._location).write(self.getvalue())
        super().close()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        super().close()


class _StoredOutput(OutputFile):
    """A new object of a store.

    Does not check whether it exists, because names of metadata files are unique.
    """

    def __len__(self) -> int:
        return len(_StoredInput(self.location))

    def exists(self) -> bool:
        return _StoredInput(self.location).exists()

    def to_input_file(self) -> InputFile:
        return _StoredInput(self.location)

    def create(self, overwrite: bool = False) -> Any:
        return _Stored(self.location)


class OwnIO(FileIO):
    """Reads and writes metadata files with the same configuration as data files.

    Local files are opened by their exact path, and synced when they are written. pyiceberg's own
    FileIO parses a path as a URI, so that ``#`` and ``?`` would end it. In a store, a file takes
    one request.
    """

    def new_input(self, location: str) -> InputFile:
        return _LocalInput(location) if is_here(location) else _StoredInput(location)

    def new_output(self, location: str) -> OutputFile:
        return _LocalOutput(location) if is_here(location) else _StoredOutput(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        name = location if isinstance(location, str) else location.location
        if is_here(name):
            os.remove(_path(name))
        else:
            remove_file(name)


def is_here(location: str) -> bool:
    """Returns whether a location is on this machine."""
    return local_path(location) is not None


def _path(location: str) -> str:
    path = local_path(location)
    if path is None:
        raise InvalidArgumentError(f"{location}: not a location on this machine")
    return path
