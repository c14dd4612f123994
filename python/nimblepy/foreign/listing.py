"""Lists the Parquet files of an index, from patterns, paths and directories."""

from __future__ import annotations

import glob
import os
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from nimblepy.errors import InvalidArgumentError
from nimblepy.io.location import FileSystem, Location, is_uri, locate

_WILDCARDS = "*?["


@dataclass(frozen=True, slots=True)
class Paths:
    """The paths that the caller gave, made absolute. Listing them again finds new files.

    Attributes:
        given: paths, patterns or directories; URIs, or paths in ``filesystem``.
        target: path of the index file, which a pattern may match.
    """

    given: tuple[str, ...]
    filesystem: FileSystem | None = None
    timeout: float | None = None
    target: str = ""

    @classmethod
    def of(
        cls,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        filesystem: FileSystem | None,
        timeout: float | None,
        target: str = "",
    ) -> Paths:
        many = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        if not many:
            raise InvalidArgumentError("paths: got no path; expected at least one")
        given = []
        for path in many:
            if not isinstance(path, (str, os.PathLike)):
                raise InvalidArgumentError(f"paths: expected paths, got {path!r}")
            text = os.fspath(path)
            is_local = filesystem is None and not is_uri(text)
            given.append(os.path.abspath(text) if is_local else text)
        return cls(tuple(given), filesystem, timeout, target)

    def location(self, path: str) -> Location:
        return locate(path, self.filesystem, timeout=self.timeout)

    def listed(self) -> list[str]:
        """Returns the existing files, sorted, without repeats.

        In directories and patterns, skips the index file and names that begin with ``.`` or ``_``.

        Raises:
            FileNotFoundError: a path without wildcards does not exist.
        """
        found: dict[str, None] = {}
        for path in self.given:
            for file in self._expand(path):
                if file == path or file != self.target:
                    found[file] = None
        return sorted(found)

    def _expand(self, path: str) -> list[str]:
        location = self.location(path)
        has_wildcards = any(mark in path for mark in _WILDCARDS)
        if location.is_local and has_wildcards and not os.path.exists(location.path):
            matches = glob.glob(location.path, recursive=True)
            return [p for p in matches if os.path.isfile(p) and not _is_hidden(p)]
        if has_wildcards and not location.is_local:
            return self._match_remote(path)
        if location.is_directory():
            return self._below(path, location)
        if not location.exists():
            raise FileNotFoundError(f"{path}: no such file")
        return [path]

    def _below(self, path: str, location: Location) -> list[str]:
        if not location.is_local:
            names = [name for name, _, _ in location.files()]
            root = path.rstrip("/")
            return [f"{root}/{name}" for name in names if _is_parquet(name)]
        found = []
        for folder, folders, names in os.walk(location.path):
            folders[:] = [name for name in folders if name[0] not in "._"]
            found += [os.path.join(folder, name) for name in names if _is_parquet(name)]
        return found

    def _match_remote(self, path: str) -> list[str]:
        steps = path.split("/")
        first = next(i for i, step in enumerate(steps) if any(m in step for m in _WILDCARDS))
        root, pattern = "/".join(steps[:first]), steps[first:]
        if "**" in pattern:
            raise InvalidArgumentError(f"paths: {path!r}: '**' is only for local paths")
        found = []
        for name, _, _ in self.location(root).files():
            parts = name.split("/")
            matches = len(parts) == len(pattern) and all(map(fnmatchcase, parts, pattern))
            if matches and not _is_hidden(name):
                found.append(f"{root}/{name}")
        return found


def _is_hidden(path: str) -> bool:
    return posixpath.basename(path.replace(os.sep, "/"))[:1] in {".", "_"}


def _is_parquet(name: str) -> bool:
    return name.endswith((".parquet", ".parq", ".pq")) and not _is_hidden(name)
