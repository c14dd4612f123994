"""The pointers of a catalog without a database: a small object for each table.

The pointers are below ``nimble.catalog`` in the root of the lake::

    nimble.catalog/catalog.json                the root at which the catalog was made
    nimble.catalog/shop/namespace.json         a namespace and its properties
    nimble.catalog/shop/events.table.json      the pointer of the table shop.events
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import threading
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from nimblepy.errors import CorruptFileError, InvalidArgumentError, UnsupportedVersionError
from nimblepy.io.fork import renew_after_fork
from nimblepy.io.location import is_uri
from nimblepy.table.base import moved
from nimblepy.table.base.places import readable_path
from nimblepy.table.iceberg.catalog_rows import DEFAULT_NAME, NameTaken
from nimblepy.table.iceberg.locations import folder_of
from nimblepy.table.iceberg.pointers import (
    LocalPointers,
    Lost,
    Pointers,
    StoredPointers,
    Unknown,
    Version,
)

DIRECTORY = "nimble.catalog"
_CATALOG = "catalog.json"
_NAMESPACE = "namespace.json"
_TABLE = ".table.json"
_FORMAT = 1
# Maximum bytes of a file name for a namespace or a table.
_MOST_NAME = 200


@dataclass(frozen=True, slots=True)
class Pointer:
    """The content of a table's pointer.

    Attributes:
        metadata: The newest metadata file: a path below the root, or a location outside of it.
        roots: The roots of the lake at which the metadata was written.
        own: Whether this catalog created the table, and no other name uses its files.
        least_version: The next metadata file has at least this number.
    """

    metadata: str
    roots: tuple[str, ...]
    own: bool = True
    least_version: int = 0

    def to_json(self) -> bytes:
        content = {"format-version": _FORMAT, **asdict(self)}
        return json.dumps(content).encode()

    @classmethod
    def from_json(cls, data: bytes, key: str) -> Pointer:
        content = _read_json(data, key)
        try:
            return cls(
                str(content["metadata"]),
                tuple(map(str, content["roots"])),
                bool(content["own"]),
                int(content["least_version"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptFileError(f"{key}: not the pointer of a table: {error!r}") from error


def _read_json(data: bytes, key: str) -> dict[str, Any]:
    try:
        content = json.loads(data)
        version = content["format-version"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(f"{key}: not an object of a catalog: {error!r}") from error
    if version != _FORMAT:
        raise UnsupportedVersionError(f"{key}: format version {version!r}, expected {_FORMAT}")
    assert isinstance(content, dict)
    return content


@dataclass(slots=True)
class _Read:
    """The version of a pointer that was read or written last."""

    version: Version
    pointer: Pointer
    location: str = field(default="")


class PointerRows:
    """The tables and namespaces of a catalog of pointers. Thread-safe.

    It has the methods of :class:`nimblepy.table.iceberg.catalog_rows.CatalogRows`. A pointer is
    read once for each commit; the swap compares it with that version.

    Attributes:
        root: the location of the lake.
    """

    catalog = DEFAULT_NAME

    def __init__(self, root: str, *, test: bool = True) -> None:
        """
        Args:
            root: a URI, ``file://`` for a directory.
            test: tests that a store has conditional puts.

        Raises:
            InvalidArgumentError: the store does not have conditional puts.
        """
        self.root = moved.as_root(root)
        self.uri = f"{self.root}/{DIRECTORY}"
        self.file: str | None = None
        self._pointers: Pointers
        if self.root.startswith("file:"):
            self._pointers = LocalPointers(readable_path(self.uri))
        else:
            self._pointers = stored = StoredPointers(self.uri)
            if test:
                made = stored.read(_CATALOG)
                stored.check(None if made is None else (_CATALOG, made))
        renew_after_fork(self)
        self.renew_after_fork()
        self._made = False

    def renew_after_fork(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[str, _Read] = {}

    @property
    def exists(self) -> bool:
        return self._pointers.read(_CATALOG) is not None

    @property
    def writes_may_land_later(self) -> bool:
        return self._pointers.writes_may_land_later

    def turn(self) -> AbstractContextManager[None]:
        """Blocks other commits on this machine until the block ends. Does nothing in a store."""
        return self._pointers.turn()

    # ---------------------------------------------------------------- tables

    def location(self, namespace: str, name: str) -> str | None:
        """Returns the newest metadata file of a table; ``None`` if the table does not exist."""
        read = self._read(_table_key(namespace, name))
        return None if read is None else read.location

    def _read(self, key: str) -> _Read | None:
        version = self._pointers.read(key)
        if version is None or version.is_dropped:
            with self._lock:
                self._last.pop(key, None)
            return None
        return self._keep(key, version)

    def _keep(self, key: str, version: Version) -> _Read:
        pointer = Pointer.from_json(version.data, f"{self.uri}/{key}")
        location = pointer.metadata
        if not is_uri(location):
            moved.register(self.root, pointer.roots)
            location = f"{self.root}/{location}"
        read = _Read(version, pointer, location)
        with self._lock:
            self._last[key] = read
        return read

    def pointer(self, namespace: str, name: str) -> Pointer | None:
        """Returns the pointer of a table as it was last read."""
        read = self._last.get(_table_key(namespace, name))
        return None if read is None else read.pointer

    def _pointer_to(self, location: str, **facts: Any) -> Pointer:
        path = moved.below(location, self.root)
        return Pointer(location if path is None else path, **facts)

    def add(self, namespace: str, name: str, location: str, *, own: bool = True) -> None:
        """Raises: NameTaken: a table with this name exists."""
        key = _table_key(namespace, name)
        self._make()
        pointer = self._pointer_to(location, roots=(self.root,), own=own)
        before = self._pointers.read(key)
        if before is not None and not before.is_dropped:
            raise NameTaken
        try:
            self._keep(key, self._pointers.write(key, pointer.to_json(), before))
        except Lost:
            raise NameTaken from None
        except Unknown as error:
            raise OSError(
                f"the store did not say whether the table was created; check catalog.tables(): "
                f"{error}"
            ) from error

    def swap(self, namespace: str, name: str, old: str, new: str) -> bool:
        """Replaces a table's metadata if it is still at ``old``, and returns whether it was.

        Raises:
            Unknown: it may have taken effect.
        """
        key = _table_key(namespace, name)
        with self._lock:
            read = self._last.get(key)
        if read is None or read.location != old:
            return False
        roots = tuple(dict.fromkeys((*read.pointer.roots, self.root)))
        pointer = replace(
            self._pointer_to(new, roots=roots, own=read.pointer.own),
            least_version=read.pointer.least_version,
        )
        return self._write(key, pointer, read.version)

    def _write(self, key: str, pointer: Pointer, before: Version) -> bool:
        try:
            self._keep(key, self._pointers.write(key, pointer.to_json(), before))
        except Lost:
            return False
        return True

    def change(self, namespace: str, name: str, **facts: Any) -> bool:
        """Changes facts of a pointer, and returns whether the table exists. Retries lost races."""
        key = _table_key(namespace, name)
        while (read := self._read(key)) is not None:
            pointer = replace(read.pointer, **facts)
            if pointer == read.pointer or self._write(key, pointer, read.version):
                return True
        return False

    def remove(self, namespace: str, name: str, location: str | None = None) -> bool:
        """Removes a table if its metadata is still at ``location``, and returns whether it did."""
        key = _table_key(namespace, name)
        while (read := self._read(key)) is not None:
            if location not in (None, read.location):
                return False
            try:
                self._pointers.drop(key, read.version)
            except Lost:
                continue
            except Unknown as error:
                raise OSError(
                    f"the store did not say whether the table was dropped; check catalog.tables(): "
                    f"{error}"
                ) from error
            with self._lock:
                self._last.pop(key, None)
            return True
        return False

    def names(self, namespace: str) -> list[str]:
        """Returns the names of the tables of a namespace."""
        return [name for space, name in self._tables() if space == namespace]

    def _tables(self) -> list[tuple[str, str]]:
        return [_names_of(key) for key in self._pointers.names() if key.endswith(_TABLE)]

    def locations(self) -> list[tuple[tuple[str, str, str], str]]:
        """Returns ((catalog, namespace, table), location) of each table. Cost: one request each."""
        tables = []
        for space, name in self._tables():
            location = self.location(space, name)
            if location is not None:
                tables.append(((self.catalog, space, name), location))
        return tables

    def has_location(self, location: str) -> bool:
        """Returns whether this is the newest metadata of any table. Cost: one request per table."""
        return any(place == location for _, place in self.locations())

    def tables_at(self, folder: str) -> list[tuple[str, str]]:
        """Returns the tables whose metadata is in a directory. Cost: one request per table."""
        tables = self.locations()
        return [(space, name) for (_, space, name), at in tables if folder_of(at) == folder]

    def is_last(self, namespace: str, name: str, location: str) -> bool:
        """Returns whether the last read pointer of a table named this metadata."""
        read = self._last.get(_table_key(namespace, name))
        return read is not None and read.location == location

    def owner_of(self, path: str) -> Pointer | None:
        """Returns the last read pointer of the table with this metadata file."""
        folder = path.rpartition("/")[0]
        with self._lock:
            reads = list(self._last.values())
        return next((r.pointer for r in reads if r.location.rpartition("/")[0] == folder), None)

    # ---------------------------------------------------------------- the catalog itself

    def _make(self) -> None:
        """Makes the catalog with its first table or namespace."""
        if self._made:
            return
        if self._pointers.read(_CATALOG) is None:
            content = {"format-version": _FORMAT, "id": secrets.token_hex(16), "root": self.root}
            with contextlib.suppress(Lost):
                self._pointers.write(_CATALOG, json.dumps(content).encode(), None)
        self._made = True

    def original(self) -> str | None:
        """Returns the catalog that this one was copied from, if it still exists at its location."""
        own = self._pointers.read(_CATALOG)
        if own is None:
            return None
        content = _read_json(own.data, f"{self.uri}/{_CATALOG}")
        root = str(content["root"])
        if root == self.root:
            return None
        uri = f"{root}/{DIRECTORY}"
        if root.startswith("file:"):
            other = LocalPointers(readable_path(uri)).read(_CATALOG)
            if other is not None and os.path.samefile(
                readable_path(root), readable_path(self.root)
            ):
                return None
        else:
            other = StoredPointers(uri).read(_CATALOG)
        same = other is not None and _read_json(other.data, uri).get("id") == content.get("id")
        return root if same else None

    # ---------------------------------------------------------------- namespaces

    def namespaces(self) -> list[str]:
        """Returns all namespaces, including those that have tables but no object of their own.

        Cost: one request per 1000 tables.
        """
        keys = (key for key in self._pointers.names() if key.endswith((_TABLE, _NAMESPACE)))
        return sorted({_text(key.partition("/")[0]) for key in keys})

    def add_namespace(self, namespace: str, properties: Mapping[str, str]) -> None:
        """Raises: NameTaken: the namespace exists."""
        self._make()
        key = _namespace_key(namespace)
        before = self._pointers.read(key)
        if before is not None and not before.is_dropped:
            raise NameTaken
        try:
            self._pointers.write(key, _namespace_json(properties), before)
        except Lost:
            raise NameTaken from None

    def properties(self, namespace: str) -> dict[str, str]:
        """Returns the properties of a namespace."""
        version = self._pointers.read(_namespace_key(namespace))
        if version is None or version.is_dropped:
            return {}
        return dict(_read_json(version.data, _namespace_key(namespace))["properties"])

    def change_properties(
        self, namespace: str, removed: Iterable[str], updated: Mapping[str, str]
    ) -> None:
        """Changes properties of a namespace in one step."""
        key = _namespace_key(namespace)
        names = set(removed)
        while True:
            version = self._pointers.read(key)
            content: dict[str, str] = {}
            if version is not None and not version.is_dropped:
                content = dict(_read_json(version.data, key)["properties"])
            content = {k: v for k, v in content.items() if k not in names} | dict(updated)
            with contextlib.suppress(Lost):
                self._pointers.write(key, _namespace_json(content), version)
                return

    def remove_namespace(self, namespace: str) -> None:
        """Removes a namespace that has no tables."""
        key = _namespace_key(namespace)
        while (version := self._pointers.read(key)) is not None and not version.is_dropped:
            with contextlib.suppress(Lost):
                self._pointers.drop(key, version)
                return


def is_lake(directory: str) -> bool:
    """Returns whether a directory has a catalog of pointers."""
    return os.path.exists(os.path.join(directory, DIRECTORY, _CATALOG))


def _namespace_json(properties: Mapping[str, str]) -> bytes:
    content = {
        "format-version": _FORMAT,
        "properties": dict(properties),
        "id": secrets.token_hex(16),
    }
    return json.dumps(content).encode()


def _namespace_key(namespace: str) -> str:
    return f"{_file_name(namespace)}/{_NAMESPACE}"


def _table_key(namespace: str, name: str) -> str:
    return f"{_file_name(namespace)}/{_file_name(name)}{_TABLE}"


def _names_of(key: str) -> tuple[str, str]:
    space, _, name = key.partition("/")
    return _text(space), _text(name.removesuffix(_TABLE))


def _file_name(text: str) -> str:
    """Returns a file name for ``text``: ASCII letters and digits as they are, others as ``=`` and
    hex.
    """
    octets = text.encode()
    name = "".join(
        chr(c) if re.match(rb"[A-Za-z0-9_-]", bytes([c])) else f"={c:02x}" for c in octets
    )
    if len(name) > _MOST_NAME:
        raise InvalidArgumentError(
            f"name {text!r}: too long for a catalog of files, which allows {_MOST_NAME} bytes"
        )
    return name


def _hex(character: str) -> str:
    return "".join(f"={octet:02x}" for octet in character.encode())


def _text(name: str) -> str:
    pieces = re.sub(rb"=([0-9a-f]{2})", lambda m: bytes([int(m[1], 16)]), name.encode())
    return pieces.decode(errors="replace")
