"""A catalog without a database: one pointer per table, changed by compare-and-swap."""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Iterator
from typing import Any

from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table as IceTable
from pyiceberg.table.locations import load_location_provider

from nimblepy.errors import ConflictError, InvalidArgumentError
from nimblepy.io.location import locate
from nimblepy.io.log import logger
from nimblepy.table.base.places import readable_path, remove_file
from nimblepy.table.iceberg.catalog_rows import NameTaken
from nimblepy.table.iceberg.catalogs import SqliteCatalog, split_name
from nimblepy.table.iceberg.local_io import OwnIO, is_here, local_path
from nimblepy.table.iceberg.locations import folder_of
from nimblepy.table.iceberg.metadata import Metadata
from nimblepy.table.iceberg.pointer_rows import PointerRows
from nimblepy.table.iceberg.pointers import Lost, StoredPointers, Unknown

_log = logger(__name__)

_NUMBERED = re.compile(r"v([0-9]+)\.metadata\.json")
_HINT = "version-hint.text"
# Number of names that are taken before the directory is listed.
_MOST_TAKEN = 3


class PointerCatalog(SqliteCatalog):
    """A catalog of pointers.

    Metadata files are named ``v7.metadata.json``, and ``version-hint.text`` has the number of the
    newest one, so that engines can read a table by its directory. A writer creates the file with
    the next free number, then swaps the pointer. Only the pointer decides which file is current: a
    metadata file that a pointer never named is not part of the table. Its number is skipped.
    """

    def __init__(self, rows: PointerRows, **properties: str) -> None:
        super().__init__(rows, **properties)
        self._rows: PointerRows = rows
        self.is_certain = not rows.writes_may_land_later

    def base_of(self, table: IceTable) -> IceTable:
        # The swap compares the pointer with the version that was read last.
        if not self.is_certain and self._rows.is_last(
            *split_name(table.name()), table.metadata_location
        ):
            return table
        return self.load_table(table.name())

    def creator(self, location: str) -> str:
        return "pointers"  # a directory or bucket has one catalog of this kind

    # ---------------------------------------------------------------- metadata files

    @staticmethod
    def version_number(path: str) -> int:
        match = _NUMBERED.fullmatch(_name(path))
        if match is not None:
            return int(match[1])
        return SqliteCatalog.version_number(path)

    def has_made(self, path: str) -> bool:
        """Returns whether this catalog's commits wrote a metadata file that no other name uses."""
        owner = self._rows.owner_of(path)
        return owner is not None and owner.own and bool(_NUMBERED.fullmatch(_name(path)))

    def files_beside(self, metadata: Metadata) -> list[str]:
        """Returns the files of a table that its metadata does not name."""
        folder, _, name = metadata.metadata_file.rpartition("/")
        return [f"{folder}/{_HINT}"] if _NUMBERED.fullmatch(name) else []

    def _create_metadata_file(
        self, metadata: Any, version: int, table: tuple[str, str], before: str | None
    ) -> str:
        """Writes a metadata file under the next free number.

        Raises:
            CommitFailedException: another commit was first.
        """
        pointer = self._rows.pointer(*table)
        version = max(version, 1, pointer.least_version if pointer is not None else 0)
        provider = load_location_provider(metadata.location, metadata.properties)
        folder = str(provider.new_table_metadata_file_location(version)).rpartition("/")[0]
        taken = 0
        while True:
            path = f"{folder}/v{version}.metadata.json"
            if create_object(path, self.metadata_bytes(metadata, path)):
                if is_here(path):
                    self.sync_names(metadata.location, path, before is None)
                return path
            taken += 1
            if taken == 1 and before is not None and self._rows.location(*table) != before:
                raise CommitFailedException(f"{'.'.join(table)} was updated by another process")
            version = version + 1 if taken < _MOST_TAKEN else self._greatest_version(folder) + 1

    @staticmethod
    def _greatest_version(folder: str) -> int:
        matches = map(_NUMBERED.fullmatch, locate(readable_path(folder)).names())
        return max((int(match[1]) for match in matches if match is not None), default=0)

    @contextlib.contextmanager
    def written(
        self, metadata: Any, version: int, table: tuple[str, str], before: str | None
    ) -> Iterator[str]:
        location = self._create_metadata_file(metadata, version, table, before)
        try:
            yield location
        except CommitFailedException:
            landed = self._has_landed(location, table, before)
            if landed is None:
                raise CommitStateUnknownException(f"{'.'.join(table)}: {location}") from None
            if not landed:
                self._remove(location)
                raise
        except Unknown as error:
            raise ConflictError(
                f"{'.'.join(table)}: the store did not say whether the commit took effect, and it "
                f"may still take effect; check whether its rows are in the table: {error}",
                kind="unknown",
            ) from error
        except TableAlreadyExistsError:
            self._remove(location)
            raise
        except OSError as error:
            if self._rows.location(*table) != location:
                if self.is_certain:
                    self._remove(location)
                raise
            _log.warning("%s: it was committed, despite %r", ".".join(table), error)
        self.known_metadata.put(location, metadata)
        self._write_hint(location)

    def _has_landed(self, location: str, table: tuple[str, str], before: str | None) -> bool | None:
        """Returns whether a swap that was reported as lost had in fact taken effect, before other
        commits.

        A client that repeats a put after a lost answer may lose to its own first put. ``None``: the
        table was dropped, or its log does not go back far enough.
        """
        if self.is_certain:
            return False
        newest = self._rows.location(*table)
        if newest is None:
            return None
        log = [entry.metadata_file for entry in self.metadata_file_at(newest).metadata_log]
        files = [*log, newest]
        return True if location in files else False if before in files else None

    @staticmethod
    def _remove(location: str) -> None:
        with contextlib.suppress(Exception):  # a file that cannot be removed becomes an orphan
            remove_file(location)

    def _write_hint(self, location: str) -> None:
        """Tells engines that read the directory which metadata file is the newest."""
        folder, _, name = location.rpartition("/")
        match = _NUMBERED.fullmatch(name)
        if match is None:
            return
        path = f"{folder}/{_HINT}"
        try:
            local = local_path(path)
            if local is None:
                locate(path).write(match[1].encode())
                return
            temporary = f"{folder}/.{_HINT}.{uuid.uuid4().hex}.tmp"
            with OwnIO().new_output(temporary).create() as sink:
                sink.write(match[1].encode())
            os.replace(local_path(temporary) or "", local)
        except Exception as error:  # the commit took effect
            _log.warning("%s: not written: %s", path, error)

    def retire_versions(self, metadata: Metadata) -> None:
        """Reserves the numbers of metadata files that an interrupted commit left behind.

        Then the files can be removed, because no commit creates files with these names meanwhile.
        """
        table = split_name(metadata.name)
        greatest = self._greatest_version(metadata.metadata_file.rpartition("/")[0])
        newest = self._rows.location(*table)
        if newest is not None and greatest > self.version_number(newest):
            self._rows.change(*table, least_version=greatest + 1)

    # ---------------------------------------------------------------- tables

    def register_table(
        self, identifier: Any, metadata_location: str, overwrite: bool = False
    ) -> Any:
        namespace, name = split_name(identifier)
        self.check_namespace(namespace)
        self.metadata_file_at(metadata_location)  # raises if the file is not metadata
        if not overwrite and self._rows.location(namespace, name) is not None:
            raise TableAlreadyExistsError(f"{namespace}.{name} already exists")
        # From now on neither name removes metadata files that the other one may need.
        for other in self._rows.tables_at(folder_of(metadata_location)):
            self._rows.change(*other, own=False)
        try:
            self._rows.add(namespace, name, metadata_location, own=False)
        except NameTaken:
            old = self._rows.location(namespace, name) if overwrite else None
            if old is None or not self._rows.swap(namespace, name, old, metadata_location):
                raise TableAlreadyExistsError(f"{namespace}.{name} already exists") from None
        return self.load_table(identifier)

    def other_name(self, identifier: Any, metadata_file: str) -> str | None:
        table = split_name(identifier)
        pointer = self._rows.pointer(*table)
        if pointer is not None and pointer.own:
            return None
        others = self._rows.tables_at(folder_of(metadata_file))
        return next((".".join(other) for other in others if other != table), None)

    def forget_roots(self, table: Any) -> None:
        self._rows.change(*split_name(table), roots=(self._rows.root,))

    def rename_table(self, from_identifier: Any, to_identifier: Any) -> Any:
        self.check_may_rename()
        raise NoSuchTableError(str(from_identifier))

    def check_may_rename(self) -> None:
        """Raises, because no compare-and-swap can change two pointers in one step."""
        raise InvalidArgumentError(
            "rename_table: a catalog without a database cannot rename a table in one step; "
            "drop the table without purge, then register its metadata file under the new name"
        )


def create_object(location: str, data: bytes) -> bool:
    """Creates a file or an object unless it exists, and returns whether it did.

    Raises:
        InvalidArgumentError: the store has no conditional put. OSError: it cannot be created.
    """
    path = local_path(location)
    if path is None:
        folder, _, name = location.rpartition("/")
        try:
            StoredPointers(folder).write(name, data, None)
        except Lost:
            return False
        except Unknown as error:
            raise OSError(str(error)) from error
        return True
    folder, name = os.path.split(path)
    os.makedirs(folder, exist_ok=True)
    temporary = f"{folder}/.{name}.{uuid.uuid4().hex}.tmp"
    try:
        with OwnIO().new_output(temporary).create() as sink:
            sink.write(data)
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        with contextlib.suppress(OSError):
            os.remove(temporary)
    return True


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def open_pointers(rows: PointerRows) -> PointerCatalog:
    """Returns the catalog of the pointers in a lake."""
    own = f"{OwnIO.__module__}.{OwnIO.__name__}"
    return PointerCatalog(rows, warehouse=rows.root, **{"py-io-impl": own})
