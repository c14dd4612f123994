"""Opens catalogs; creates, loads and drops namespaces and tables."""

from __future__ import annotations

import contextlib
import io
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyiceberg
from pyiceberg.catalog import (
    Catalog,
    MetastoreCatalog,
    PropertiesUpdateSummary,
    load_catalog,
)
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    RESTError,
    TableAlreadyExistsError,
)
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.partitioning import PartitionField as IcePartitionField
from pyiceberg.schema import Schema
from pyiceberg.serializers import Compressor, FromByteStream
from pyiceberg.table import CommitTableResponse, StagedTable, StaticTable, TableProperties
from pyiceberg.table import Table as IceTable
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadataUtil, TableMetadataV1, new_table_metadata
from pyiceberg.table.snapshots import MetadataLogEntry
from pyiceberg.table.sorting import (
    UNSORTED_SORT_ORDER,
    SortOrder,
)
from pyiceberg.table.update import (
    AssertCreate,
    RemoveSnapshotsUpdate,
    update_table_metadata,
)
from pyiceberg.transforms import parse_transform
from pyiceberg.typedef import EMPTY_DICT
from pyiceberg.utils.config import Config

from nimblepy.cached import cached_property
from nimblepy.errors import CorruptFileError, InvalidArgumentError, UnsupportedVersionError
from nimblepy.io.location import is_uri
from nimblepy.io.log import logger
from nimblepy.io.lru_cache import LruCache
from nimblepy.io.sync import sync_path
from nimblepy.schema.types import SortKey
from nimblepy.table.base.creations import forget_creation
from nimblepy.table.base.moved import as_root, is_below, register
from nimblepy.table.base.places import readable_path
from nimblepy.table.base.transforms import free_name
from nimblepy.table.iceberg.catalog_rows import (
    DEFAULT_NAME,
    CatalogRows,
    NameTaken,
    chosen_name,
)
from nimblepy.table.iceberg.local_io import OwnIO, local_path
from nimblepy.table.iceberg.locations import (
    MOVED,
    folder_of,
    register_moved,
    translated_metadata,
    with_moved,
)
from nimblepy.table.iceberg.metadata import (
    KEPT_METADATA,
    PRIMARY_KEY_ORDER,
    Metadata,
    parsing,
    to_places,
)
from nimblepy.table.iceberg.metadata_json import MetadataObjects, SnapshotTexts, with_snapshots
from nimblepy.table.iceberg.private import iceberg_schema, staged_table, updated_metadata
from nimblepy.table.iceberg.schemas import (
    details_of,
    field_id,
    fresh,
    new_sort_order,
    to_iceberg,
    type_property,
)
from nimblepy.table.iceberg.version3 import (
    metadata_json,
    with_next_row_id,
    without_variants,
)

_log = logger(__name__)

# Properties that configure a store for pyiceberg. nimblepy's own I/O reads the environment.
_STORE_PROPERTIES = ("py-io-impl", "s3.", "gcs.", "adls.", "hf.")


# pyiceberg's errors for a server that does not stage tables: 501, 400, and 405, 406 or 422.
_CANNOT_STAGE = (NotImplementedError, BadRequestError, RESTError)

# NUMBER-UUID.metadata.json; a codec name may precede the suffix.
_METADATA_NAME = re.compile(
    r"(\d+)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:\.\w+)?\.metadata\.json", re.IGNORECASE
)


class SqliteCatalog(MetastoreCatalog):
    """A catalog in a SQLite database. The cost of a commit does not grow with the history.

    Uses the same rows as pyiceberg's ``SqlCatalog``, so both classes can use one database.
    pyiceberg reads, validates, copies and serialises all metadata at each commit. Metadata files
    and the objects made from them never change, so this class caches them. New metadata shares
    unchanged objects with the old metadata, even if another process made the commit. The JSON of
    each snapshot is cached too. The metadata file of a lost commit is removed.
    """

    # Whether a commit that failed certainly never takes effect later.
    is_certain = True

    def __init__(self, rows: Any, **properties: str) -> None:
        super().__init__(rows.catalog, uri=rows.uri, **properties)
        self._rows = rows
        self.known_metadata: LruCache[Any] = LruCache(KEPT_METADATA)
        self._texts = SnapshotTexts(KEPT_METADATA)
        self._objects = MetadataObjects(KEPT_METADATA)

    @property
    def database(self) -> str | None:
        """The file with the rows, or ``None`` if they are in memory."""
        return self._rows.file

    @property
    def root(self) -> str:
        """The root of the lake."""
        return as_root(self.properties["warehouse"])

    def original(self) -> str | None:
        """Returns the database that this one is a copy of; both have the same tables."""
        return self._rows.original()

    def other_name(self, identifier: Any, metadata_file: str) -> str | None:
        """Returns another name under which the database has the table of a metadata file.

        Two names belong to one table if their metadata is in the same directory.
        """
        own = (self._rows.catalog, *split_name(identifier))
        place = folder_of(metadata_file)
        for key, location in self._rows.locations():
            if key != own and folder_of(location) == place:
                catalog, *name = key
                where = "" if catalog == own[0] else f" of the catalog {catalog!r}"
                return ".".join(name) + where
        return None

    def turn(self) -> AbstractContextManager[None]:
        """Blocks other commits until the block ends; see :meth:`CatalogRows.turn`."""
        return self._rows.turn()

    def base_of(self, table: IceTable) -> IceTable:
        """Returns the version of a table that a commit prepared for ``table`` is based on."""
        return self.load_table(table.name())

    @staticmethod
    def version_number(path: str) -> int:
        """Returns the number in the name of a metadata file; -1 if it has another form."""
        return _version_number(path)

    def files_beside(self, metadata: Metadata) -> list[str]:
        """Returns the files of a table that its metadata does not name."""
        return []

    def creator(self, location: str) -> str:
        """Returns the text that identifies this catalog in the record of a table's creation.

        The text stays the same if the lake is moved together with the table.
        """
        is_inside = is_below(_real(location), as_root(_real(self.root)))
        return str(self._rows.mark_for(self.root if is_inside else None))

    def has_table_at(self, location: str) -> bool | None:
        """Returns whether a table has a directory.

        ``None`` if this is unknown, because the metadata of a table cannot be read.

        Cost: reads the metadata of all tables.
        """
        place = _real(location)
        has_table: bool | None = False
        for _, path in self._rows.locations():
            try:
                if _real(self.metadata_file_at(path).location) == place:
                    return True
            except (OSError, CorruptFileError, UnsupportedVersionError) as error:
                _log.warning("%s: it may be the table of %s: %s", path, location, error)
                has_table = None
        return has_table

    def retire_versions(self, metadata: Metadata) -> None:
        """Does nothing. Called before orphans of a table are removed."""

    def check_may_rename(self) -> None:
        """
        Raises:
            InvalidArgumentError: this kind of catalog cannot rename tables.
        """

    # ---------------------------------------------------------------- tables

    def load_table(self, identifier: Any) -> IceTable:
        namespace, name = split_name(identifier)
        location = self._rows.location(namespace, name)
        if not location:
            raise NoSuchTableError(f"Table does not exist: {namespace}.{name}")
        return self.table_at(location, namespace, name)

    def table_at(self, location: str, namespace: str, name: str) -> IceTable:
        """Returns a table with the metadata in a file, which may not be its newest."""
        metadata = self.metadata_file_at(location)
        return IceTable(
            identifier=(*namespace.split("."), name),
            metadata=metadata,
            metadata_location=location,
            io=self._io(location, with_moved(metadata.properties, location)),
            catalog=self,
        )

    def metadata_file_at(self, location: str) -> Any:
        metadata = self.known_metadata.get(location)
        if metadata is None:
            file = self._io(location).new_input(location)
            with file.open() as source:
                data = source.read()
            with parsing(location, data):
                data = without_variants(translated_metadata(data, location), location)
                if not location.endswith(".gz.metadata.json"):
                    metadata = self._objects.metadata(data.decode(), TableMetadataUtil.parse_obj)
                if metadata is None:
                    metadata = FromByteStream.table_metadata(
                        io.BytesIO(data), compression=Compressor.get_compressor(location)
                    )
            self.known_metadata.put(location, metadata)
        return metadata

    def create_table(
        self,
        identifier: Any,
        schema: Any,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Any = EMPTY_DICT,
    ) -> IceTable:
        staged = self.stage_table(
            identifier, schema, location, partition_spec, sort_order, properties
        )
        namespace, name = split_name(identifier)
        # Return the metadata at hand, because another process may already have dropped the table.
        return self.table_at(self._add(namespace, name, staged.metadata), namespace, name)

    def stage_table(
        self,
        identifier: Any,
        schema: Any,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Any = EMPTY_DICT,
    ) -> StagedTable:
        """Returns a new table that is not in the catalog yet. :meth:`add_table` adds it."""
        namespace, name = split_name(identifier)
        self.check_namespace(namespace)
        version = properties.get("format-version", TableProperties.DEFAULT_FORMAT_VERSION)
        metadata = new_table_metadata(
            location=self._table_location(location, namespace, name),
            schema=iceberg_schema(schema, int(version)),
            partition_spec=partition_spec,
            sort_order=sort_order,
            properties=properties,
        )
        return StagedTable(
            identifier=(*namespace.split("."), name),
            metadata=with_next_row_id(metadata),
            metadata_location="",
            io=self._io(metadata.location, metadata.properties),
            catalog=self,
        )

    def add_table(self, staged: StagedTable, updates: Any) -> CommitTableResponse:
        """Adds a staged table to the catalog, with updates such as its first snapshot."""
        namespace, name = split_name(staged.name())
        self.check_namespace(namespace)
        made = _updated(staged.metadata, updates, "").model_copy(update={"metadata_log": []})
        return CommitTableResponse(
            metadata=made, metadata_location=self._add(namespace, name, made)
        )

    def _add(self, namespace: str, name: str, metadata: Any) -> str:
        """Writes the metadata of a new table and adds its row. Returns the metadata path."""
        with self.written(metadata, 0, (namespace, name), None) as location:
            try:
                self._rows.add(namespace, name, location)
            except NameTaken:
                raise TableAlreadyExistsError(f"{namespace}.{name} already exists") from None
        return location

    def register_table(
        self, identifier: Any, metadata_location: str, overwrite: bool = False
    ) -> IceTable:
        namespace, name = split_name(identifier)
        self.check_namespace(namespace)
        self.metadata_file_at(metadata_location)  # raises unless it is a metadata file
        try:
            self._rows.add(namespace, name, metadata_location)
        except NameTaken:
            old = self._rows.location(namespace, name) if overwrite else None
            if old is None or not self._rows.swap(namespace, name, old, metadata_location):
                raise TableAlreadyExistsError(f"{namespace}.{name} already exists") from None
        return self.load_table(identifier)

    def drop_table(self, identifier: Any, unchanged: str | None = None) -> None:
        """Removes a table from the catalog.

        With ``unchanged``, removes it only if its metadata is still at that path.
        """
        namespace, name = split_name(identifier)
        path = self._rows.location(namespace, name)
        if path:  # without a record, no clean-up mistakes the files for those of a killed creation
            with contextlib.suppress(OSError, CorruptFileError, UnsupportedVersionError):
                forget_creation(self.metadata_file_at(path).location)
        if not self._rows.remove(namespace, name, unchanged):
            raise NoSuchTableError(f"Table does not exist: {namespace}.{name}")

    def rename_table(self, from_identifier: Any, to_identifier: Any) -> IceTable:
        old, new = split_name(from_identifier), split_name(to_identifier)
        self.check_namespace(new[0])
        try:
            if not self._rows.rename(old, new):
                raise NoSuchTableError(f"Table does not exist: {'.'.join(old)}")
        except NameTaken:
            raise TableAlreadyExistsError(f"{'.'.join(new)} already exists") from None
        return self.load_table(to_identifier)

    def list_tables(self, namespace: Any) -> list[Any]:
        space = Catalog.namespace_to_string(namespace)
        self.check_namespace(space)
        return [(*space.split("."), name) for name in self._rows.names(space)]

    def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
        namespace, name = split_name(table.name())
        try:
            current = self.base_of(table)
        except NoSuchTableError:
            for requirement in requirements:
                requirement.validate(None)
            empty = TableMetadataV1.model_construct(last_column_id=-1, schema=Schema())
            made = update_table_metadata(empty, updates, enforce_validation=True)
            return CommitTableResponse(
                metadata=made, metadata_location=self._add(namespace, name, made)
            )
        for requirement in requirements:
            requirement.validate(current.metadata)
        before = current.metadata_location
        metadata = _updated(current.metadata, updates, before)
        if metadata == current.metadata:
            return CommitTableResponse(metadata=metadata, metadata_location=before)
        return self._swap(metadata, namespace, name, before)

    def replace_metadata(self, table: IceTable, metadata: Any) -> Any:
        """Commits metadata that pyiceberg's updates cannot express.

        Raises:
            CommitFailedException: ``table`` is not its newest version.
        """
        before = table.metadata_location
        entry = MetadataLogEntry(metadata_file=before, timestamp_ms=table.metadata.last_updated_ms)
        updated = max(int(time.time() * 1000), table.metadata.last_updated_ms + 1)
        log = [*metadata.metadata_log, entry]
        made = metadata.model_copy(update={"metadata_log": log, "last_updated_ms": updated})
        self.load_table(table.name())
        return self._swap(made, *split_name(table.name()), before)

    def _swap(self, metadata: Any, namespace: str, name: str, before: str) -> Any:
        version = self.version_number(before) + 1
        with self.written(metadata, version, (namespace, name), before) as location:
            if not self._rows.swap(namespace, name, before, location):
                raise CommitFailedException(f"{namespace}.{name} was updated by another process")
        return CommitTableResponse(metadata=metadata, metadata_location=location)

    def _io(self, location: str, properties: Any = EMPTY_DICT) -> FileIO:
        return load_file_io({**self.properties, **properties}, location)

    def _table_location(self, location: str | None, namespace: str, name: str) -> str:
        """Returns the location of a new table: as given, or a path below its namespace or
        warehouse.
        """
        if location:
            return location.rstrip("/")
        above = self._rows.properties(namespace).get("location")
        if above is None:
            above = f"{self.properties['warehouse'].rstrip('/')}/{namespace}"
        return f"{above.rstrip('/')}/{name}"

    def forget_roots(self, table: Any) -> None:
        """Records that the metadata of a table no longer has paths below old roots."""

    def _metadata_location(self, metadata: Any, version: int) -> str:
        """Returns the path of a new metadata file. Its name marks it as made by this catalog."""
        places = load_location_provider(metadata.location, metadata.properties)
        path = str(places.new_table_metadata_file_location(version))
        folder, _, name = path.rpartition("/")
        number, _, unique = name.partition("-")
        return f"{folder}/{number}-{unique[: -len(self._ending)]}{self._ending}"

    def has_made(self, path: str) -> bool:
        """Returns whether a commit to this catalog wrote this metadata file and it is not in use
        now.

        Tables of another catalog, or other names in this catalog, may have the same files.
        """
        return path.endswith(self._ending) and not self._rows.has_location(path)

    @cached_property
    def _ending(self) -> str:
        return f"{self._rows.mark}.metadata.json"

    @contextlib.contextmanager
    def written(
        self, metadata: Any, version: int, table: tuple[str, str], before: str | None
    ) -> Iterator[str]:
        """Writes a metadata file, and removes it if the commit in the block is refused.

        If the database committed, the commit counts as a success even if the call raised.

        Args:
            version: number of the metadata file.
            before: the previous metadata file of the table, or ``None`` for a new table.
        """
        location = self._metadata_location(metadata, version)
        io = self._io(location, metadata.properties)
        self._write_file(metadata, io, location)
        try:
            yield location
        except (CommitFailedException, TableAlreadyExistsError):
            with contextlib.suppress(OSError):
                io.delete(location)
            raise
        except (OSError, CorruptFileError) as error:
            now: str | None = ""
            with contextlib.suppress(OSError, CorruptFileError):
                now = self._rows.location(*table)
                if now == before:
                    io.delete(location)
            if now != location:
                raise
            _log.warning("%s: it was committed, despite %r", ".".join(table), error)
        self.known_metadata.put(location, metadata)

    def _write_file(self, metadata: Any, io: FileIO, metadata_path: str) -> None:
        with io.new_output(metadata_path).create() as sink:
            sink.write(self.metadata_bytes(metadata, metadata_path))
        is_new = self.version_number(metadata_path) == 0
        self.sync_names(metadata.location, metadata_path, is_new)

    def metadata_bytes(self, metadata: Any, metadata_path: str) -> bytes:
        is_gzipped = metadata_path.endswith(".gz.metadata.json")
        shows_none = Config().get_bool("legacy-current-snapshot-id")
        if metadata.format_version < 2 or is_gzipped or shows_none:
            text = metadata_json(metadata, shows_none=shows_none)
            compressor = Compressor.get_compressor(metadata_path)
            return bytes(compressor.bytes_compressor()(text.encode()))
        return with_snapshots(
            metadata_json(metadata, exclude=["snapshots"]),
            self._texts.of(
                str(metadata.table_uuid),
                metadata.snapshots,
                lambda snapshot: str(snapshot.model_dump_json()),
            ),
        ).encode()

    def sync_names(self, location: str, metadata_path: str, is_new: bool) -> None:
        """Syncs the directories of a metadata file, so that its name survives a crash."""
        folder, root = local_path(metadata_path), local_path(location)
        if folder is None or root is None:
            return
        if is_new:
            root = local_path(self.properties.get("warehouse", location)) or root
        folder = os.path.dirname(folder)
        sync_path(folder)
        while folder.startswith(root.rstrip("/") + "/"):
            folder = os.path.dirname(folder)
            sync_path(folder)

    # ---------------------------------------------------------------- namespaces

    def namespace_exists(self, namespace: Any) -> bool:
        space = Catalog.namespace_to_string(namespace, NoSuchNamespaceError)
        return any(f"{name}.".startswith(f"{space}.") for name in self._rows.namespaces())

    def check_namespace(self, namespace: str) -> None:
        if not self.namespace_exists(namespace):
            raise NoSuchNamespaceError(f"Namespace does not exist: {namespace}")

    def create_namespace(self, namespace: Any, properties: Any = EMPTY_DICT) -> None:
        space = Catalog.namespace_to_string(namespace, NoSuchNamespaceError)
        taken = NamespaceAlreadyExistsError(f"Namespace {space} already exists")
        if self.namespace_exists(space):
            raise taken
        try:
            self._rows.add_namespace(space, properties or {"exists": "true"})
        except NameTaken:
            raise taken from None

    def drop_namespace(self, namespace: Any) -> None:
        space = Catalog.namespace_to_string(namespace)
        tables = self.list_tables(namespace)
        if tables:
            raise NamespaceNotEmptyError(
                f"Namespace {space} is not empty. {len(tables)} tables exist."
            )
        self._rows.remove_namespace(space)

    def list_namespaces(self, namespace: Any = ()) -> list[Any]:
        above = Catalog.identifier_to_tuple(namespace) if namespace else ()
        if above:
            self.check_namespace(Catalog.namespace_to_string(above))
        namespaces = {tuple(name.split(".")) for name in self._rows.namespaces()}
        level = len(above) + 1
        return sorted(
            {
                name[:level]
                for name in namespaces
                if len(name) >= level and name[: level - 1] == above
            }
        )

    def load_namespace_properties(self, namespace: Any) -> Any:
        space = Catalog.namespace_to_string(namespace)
        self.check_namespace(space)
        return self._rows.properties(space)

    def update_namespace_properties(
        self, namespace: Any, removals: set[str] | None = None, updates: Any = EMPTY_DICT
    ) -> Any:
        old_properties = self.load_namespace_properties(namespace)
        removed = set(removals or ())
        both = removed & set(updates)
        if both:
            raise ValueError(f"properties both removed and set: {', '.join(sorted(both))}")
        space = Catalog.namespace_to_string(namespace)
        self._rows.change_properties(space, removed, updates)
        return PropertiesUpdateSummary(
            removed=sorted(removed & set(old_properties)),
            updated=sorted(updates),
            missing=sorted(removed - set(old_properties)),
        )

    # ---------------------------------------------------------------- views, which it lacks

    def list_views(self, namespace: Any) -> list[Any]:
        return []

    def view_exists(self, identifier: Any) -> bool:
        return False

    def load_view(self, identifier: Any) -> Any:
        raise NoSuchViewError(f"View does not exist: {identifier}")

    def register_view(self, identifier: Any, metadata_location: str) -> Any:
        raise UnsupportedVersionError("the catalog of a directory has tables and no views")

    def drop_view(self, identifier: Any) -> None:
        raise NoSuchViewError(f"View does not exist: {identifier}")


def _version_number(path: str) -> int:
    """Returns the version at the start of a metadata file's name; -1 if the name has none."""
    match = _METADATA_NAME.fullmatch(path.rpartition("/")[2])
    return -1 if match is None else int(match[1])


def _real(location: str) -> str:
    """Returns a location in a form that can be compared."""
    path = readable_path(location).rstrip("/")
    return path if is_uri(path) else os.path.realpath(path)


def split_name(identifier: Any) -> tuple[str, str]:
    """Returns (namespace, name) of a table, as the rows of a catalog store them."""
    return (
        Catalog.namespace_to_string(Catalog.namespace_from(identifier)),
        Catalog.table_name_from(identifier),
    )


def _updated(base: Any, updates: Any, location: str) -> Any:
    """Returns the metadata after ``updates``, with a log that readers accept."""
    made = updated_metadata(base, updates, location)
    if made is base or made == base:
        return base
    removed_ids = {
        number
        for update in updates
        if isinstance(update, RemoveSnapshotsUpdate)
        for number in update.snapshot_ids
    }
    # Clocks may run backwards, but readers refuse metadata whose log is not in order.
    earliest = base.last_updated_ms + 1
    new = made.snapshot_log[len(base.snapshot_log) :]
    if removed_ids:
        old = {(entry.snapshot_id, entry.timestamp_ms) for entry in base.snapshot_log}
        new = [e for e in made.snapshot_log if (e.snapshot_id, e.timestamp_ms) not in old]
    new = [
        entry
        if entry.timestamp_ms >= earliest
        else entry.model_copy(update={"timestamp_ms": earliest})
        for entry in new
    ]
    changed: dict[str, Any] = {"last_updated_ms": max(made.last_updated_ms, earliest)}
    if new:
        changed["snapshot_log"] = [*base.snapshot_log, *new]
    if removed_ids:
        changed["snapshot_log"] = _log_after([*base.snapshot_log, *new], removed_ids)
        # pyiceberg removes other statistics of these snapshots, but not these.
        changed["partition_statistics"] = [
            item for item in made.partition_statistics if item.snapshot_id not in removed_ids
        ]
    return made.model_copy(update=changed)


def _log_after(log: Sequence[Any], gone: set[int]) -> list[Any]:
    """Returns the log entries after the last entry of a removed snapshot.

    Earlier entries would claim times at which a removed snapshot was the newest.
    """
    last = max((i for i, entry in enumerate(log) if entry.snapshot_id in gone), default=-1)
    return list(log[last + 1 :])


def open_sqlite(rows: CatalogRows, warehouse: str, **properties: str) -> Catalog:
    """Returns the catalog in a SQLite database."""
    if not any(name.startswith(_STORE_PROPERTIES) for name in properties):
        properties = {"py-io-impl": f"{OwnIO.__module__}.{OwnIO.__name__}", **properties}
    rows.set_root(warehouse)
    return SqliteCatalog(rows, warehouse=warehouse, **properties)


def open_uri(uri: str, name: str | None, properties: Mapping[str, str]) -> Catalog:
    """Returns a catalog of any kind that pyiceberg supports.

    Args:
        name: name of the catalog. ``None`` uses the only catalog of a SQL database.
    """
    shown = uri
    kinds = {}
    if uri.startswith("rest:"):
        kinds, uri = {"type": "rest"}, uri.removeprefix("rest:")
    try:
        catalog = load_catalog(name or DEFAULT_NAME, uri=uri, **kinds, **properties)
        if name is None and (only := chosen_name(_names_in(catalog), shown)) != DEFAULT_NAME:
            catalog = load_catalog(only, uri=uri, **kinds, **properties)
        return catalog
    except InvalidArgumentError:
        raise
    except (ValueError, pyiceberg.exceptions.RESTError) as error:
        raise InvalidArgumentError(f"connect: {uri!r}: {error}") from error


def _names_in(catalog: Catalog) -> list[str]:
    """Returns the names of the catalogs in the database of a ``SqlCatalog``; empty for other
    classes.
    """
    engine = getattr(catalog, "engine", None)
    if engine is None:
        return []
    with engine.connect() as connection:
        rows = connection.exec_driver_sql(
            "SELECT catalog_name FROM iceberg_tables UNION "
            "SELECT catalog_name FROM iceberg_namespace_properties"
        )
        return sorted(row[0] for row in rows)


def database_of(metadata: Metadata) -> str | None:
    """Returns the SQLite file with the catalog of a table, or ``None`` for other catalogs."""
    catalog = metadata.ice.catalog
    if isinstance(catalog, SqliteCatalog):
        return catalog.database
    uri = str(catalog.properties.get("uri", ""))
    path = uri.removeprefix("sqlite:///").partition("?")[0]
    return os.path.realpath(path) if uri.startswith("sqlite:///") and path else None


def turn(metadata: Metadata) -> AbstractContextManager[None]:
    """Blocks other commits until this thread commits or the block ends.

    Catalog servers do not support this: with them, the block runs without protection.
    """
    catalog = metadata.ice.catalog
    return catalog.turn() if isinstance(catalog, SqliteCatalog) else contextlib.nullcontext()


def check_may_remove(metadata: Metadata) -> None:
    """Raises if another table may need this table's files.

    Raises:
        InvalidArgumentError: the catalog has the table under another name as well, or is a copy of
            another catalog, whose tables have the same files.
    """
    catalog = metadata.ice.catalog
    if not isinstance(catalog, SqliteCatalog):
        return
    other = catalog.other_name(metadata.name, metadata.metadata_file)
    if other is not None:
        raise InvalidArgumentError(
            f"{'.'.join(metadata.name)}: the table {other} has the same files, so no file was "
            "removed; first drop one of the two tables, without purge"
        )
    original = catalog.original()
    if original is not None and not is_below(metadata.location, catalog.root):
        raise InvalidArgumentError(
            f"{'.'.join(metadata.name)}: its catalog is a copy of {original}, whose tables have "
            "the same files, so no file was removed; connect to the original, or move it away "
            "if it is not needed"
        )


def is_lake_in_a_store(metadata: Metadata) -> bool:
    """Returns whether the catalog is in a store.

    If so, checking for new metadata costs a request.
    """
    catalog = metadata.ice.catalog
    return isinstance(catalog, SqliteCatalog) and not catalog.is_certain


def files_beside(metadata: Metadata) -> list[str]:
    """Returns the files that the catalog keeps for a table in addition to its metadata."""
    catalog = metadata.ice.catalog
    return catalog.files_beside(metadata) if isinstance(catalog, SqliteCatalog) else []


def creator(metadata: Metadata) -> str | None:
    """Returns the text by which a catalog recognizes its records of creations beside a table.

    ``None`` for catalogs of other programs: what is in them cannot be known with certainty.
    """
    catalog = metadata.ice.catalog
    return catalog.creator(metadata.location) if isinstance(catalog, SqliteCatalog) else None


def has_table_at(metadata: Metadata, location: str) -> bool | None:
    """Returns whether the catalog of a table has a table in a directory; ``None`` if unknown."""
    catalog = metadata.ice.catalog
    return catalog.has_table_at(location) if isinstance(catalog, SqliteCatalog) else None


def retire_versions(metadata: Metadata) -> None:
    """Makes it safe to remove metadata files that interrupted commits left behind."""
    if isinstance(metadata.ice.catalog, SqliteCatalog):
        metadata.ice.catalog.retire_versions(metadata)


def register_old_root(catalog: Catalog, old_root: str) -> None:
    """Registers a former root of a lake that the catalog has not recorded."""
    if isinstance(catalog, SqliteCatalog):
        register(catalog.root, [as_root(old_root)])


def check_may_rename(catalog: Catalog) -> None:
    """
    Raises:
        InvalidArgumentError: the catalog cannot rename tables.
    """
    if isinstance(catalog, SqliteCatalog):
        catalog.check_may_rename()


def removable(metadata: Metadata, files: Sequence[str]) -> list[str]:
    """Returns the files that may be removed once the table does not need them.

    A copy of a lake does not remove files outside of its root: the original may need them.
    """
    catalog = metadata.ice.catalog
    if not isinstance(catalog, SqliteCatalog) or catalog.original() is None:
        return list(files)
    return [path for path in files if is_below(path, catalog.root)]


def is_catalog(value: object) -> bool:
    return isinstance(value, Catalog)


class TableExists(Exception):
    """A table with this name already exists."""


class NoSuchTable(Exception):
    """The catalog does not have a table of this name."""


@dataclass(frozen=True, kw_only=True)
class NewTable:
    """The settings of a new table.

    Attributes:
        location: its directory; ``None``: the catalog chooses it.
        partition_by: (column, transform, name) of each partition field.
        format_version: of Iceberg's format, 2 or 3.
    """

    location: str | None
    primary_key: Sequence[str]
    cluster_by: Sequence[SortKey]
    partition_by: Sequence[tuple[str, str, str]]
    properties: Mapping[str, str]
    format_version: int = 2


def create_namespace(catalog: Catalog, namespace: tuple[str, ...]) -> None:
    """Makes a namespace. Does nothing if it exists."""
    try:
        catalog.create_namespace(namespace)
    except NamespaceAlreadyExistsError:
        return
    except Exception as error:
        # The SQL catalog reports a namespace that another process just made as a database error.
        if type(error).__module__.split(".")[0] != "sqlalchemy":
            raise
        if namespace not in catalog.list_namespaces():
            raise


def list_namespaces(catalog: Catalog) -> list[tuple[str, ...]]:
    """Returns all namespaces, nested ones included."""
    names: list[tuple[str, ...]] = []
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        for name in catalog.list_namespaces(waiting.pop()):
            if name not in names:
                names.append(name)
                waiting.append(name)
    return sorted(names)


def list_tables(catalog: Catalog, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
    try:
        return sorted(tuple(name) for name in catalog.list_tables(namespace))
    except NoSuchNamespaceError:
        shown = ".".join(namespace)
        raise InvalidArgumentError(f"there is no namespace {shown!r}") from None


def load_table(catalog: Catalog, name: tuple[str, ...], newest: Metadata | None = None) -> Metadata:
    """Returns the newest metadata of a table.

    Args:
        newest: metadata that the caller has. It is returned if it is still the newest.

    Raises:
        NoSuchTable: the table does not exist.

    Cost: one read, of the metadata file.
    """
    try:
        if newest is not None and type(catalog) is SqliteCatalog:
            namespace = ".".join(name[:-1])
            location = catalog._rows.location(namespace, name[-1])
            if location == newest.metadata_file:
                return newest
            if location:
                return Metadata(catalog.table_at(location, namespace, name[-1]))
        return Metadata(catalog.load_table(name))
    except (NoSuchTableError, NoSuchNamespaceError):
        raise NoSuchTable from None


def metadata_at(path: str, properties: Mapping[str, str]) -> Metadata:
    """Returns the metadata in a file. It cannot be committed to.

    Args:
        properties: I/O properties in the form of :attr:`Metadata.io_properties`.

    Cost: one read, unless this process read the file recently.
    """
    key = f"{path} {sorted(properties.items())}"  # includes the credentials, which may change
    table = _opened.get(key)
    if table is None:
        table = _static_table(path, dict(properties))
        _opened.put(key, table)
    return Metadata(table)


def _static_table(path: str, properties: dict[str, str]) -> StaticTable:
    if MOVED not in properties:
        return StaticTable.from_metadata(path, properties)
    register_moved(properties)
    with load_file_io(properties, path).new_input(path).open() as source:
        data = translated_metadata(source.read(), path)
    with parsing(path, data):
        metadata = FromByteStream.table_metadata(
            io.BytesIO(data), compression=Compressor.get_compressor(path)
        )
    return StaticTable(
        identifier=("static-table", path),
        metadata_location=path,
        metadata=metadata,
        io=load_file_io({**properties, **metadata.properties, MOVED: properties[MOVED]}, path),
        catalog=NoopCatalog("static-table"),
    )


def drop_table(catalog: Catalog, name: tuple[str, ...], unchanged: Metadata | None = None) -> None:
    """Removes a table from the catalog.

    Args:
        unchanged: drop the table only if this is still its metadata. Catalogs outside SQLite are
            checked just before the drop, so another commit may slip in between.

    Raises:
        NoSuchTable: the table does not exist, or it has changed.
    """
    try:
        if unchanged is None:
            catalog.drop_table(name)
        elif isinstance(catalog, SqliteCatalog):
            catalog.drop_table(name, unchanged.metadata_file)
        elif load_table(catalog, name).metadata_file == unchanged.metadata_file:
            catalog.drop_table(name)
        else:
            raise NoSuchTable
    except (NoSuchTableError, NoSuchNamespaceError):
        raise NoSuchTable from None


def drop_namespace(catalog: Catalog, namespace: tuple[str, ...]) -> None:
    try:
        catalog.drop_namespace(namespace)
    except NoSuchNamespaceError:
        raise InvalidArgumentError(f"there is no namespace {'.'.join(namespace)!r}") from None
    except NamespaceNotEmptyError as error:
        raise InvalidArgumentError(str(error)) from None


def rename_table(catalog: Catalog, old: tuple[str, ...], new: tuple[str, ...]) -> None:
    try:
        catalog.rename_table(old, new)
    except (NoSuchTableError, NoSuchNamespaceError):
        raise NoSuchTable from None
    except TableAlreadyExistsError:
        raise TableExists from None


def register_table(catalog: Catalog, name: tuple[str, ...], metadata_file: str) -> Metadata:
    try:
        return Metadata(catalog.register_table(name, metadata_file))
    except TableAlreadyExistsError:
        raise TableExists from None


def create_table(
    catalog: Catalog, name: tuple[str, ...], schema: pa.Schema, settings: NewTable
) -> Metadata:
    """Creates an empty table.

    Args:
        schema: the columns, with types that tables support; see ``types.py``.

    Raises:
        TableExists: a table of this name exists.
    """
    with _refused():
        return Metadata(catalog.create_table(name, **_arguments(schema, settings)))


def stage_table(
    catalog: Catalog, name: tuple[str, ...], schema: pa.Schema, settings: NewTable
) -> Metadata | None:
    """Returns a new table that is not in the catalog yet. Its first commit creates it.

    Returns ``None`` if the catalog can only create empty tables.

    Raises:
        TableExists: a table of this name exists.
    """
    arguments = _arguments(schema, settings)
    if isinstance(catalog, MetastoreCatalog):  # servers check it themselves
        with contextlib.suppress(NoSuchTableError, NoSuchNamespaceError):
            catalog.load_table(name)
            raise TableExists
    with _refused():
        if isinstance(catalog, SqliteCatalog):
            return Metadata(catalog.stage_table(name, **arguments), checks=[AssertCreate()])
        try:
            staged = staged_table(catalog.create_table_transaction(name, **arguments))
        except (NotImplementedError, RESTError) as error:
            # Other subclasses of RESTError report failures, such as 401, 403 or 503.
            if type(error) not in _CANNOT_STAGE:
                raise
            _log.info("%s: the catalog does not stage tables: %s", ".".join(name), error)
            return None
        if staged is None:
            return None
        return Metadata(staged[0], checks=[AssertCreate()], updates=staged[1])


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    """Turns errors of a catalog that does not create a table into nimblepy's."""
    try:
        yield
    except TableAlreadyExistsError:
        raise TableExists from None
    except ValueError as error:
        if isinstance(error, InvalidArgumentError):
            raise
        raise InvalidArgumentError(f"create_table: {error}") from error


def _arguments(schema: pa.Schema, settings: NewTable) -> dict[str, Any]:
    """Returns pyiceberg's arguments for a new table."""
    ice = to_iceberg(schema, settings.primary_key)
    version = settings.format_version
    kept = dict(settings.properties) | type_property(details_of(fresh(ice), schema))
    if version != 2:
        kept["format-version"] = str(version)
    if len(settings.primary_key) > 1:
        kept[PRIMARY_KEY_ORDER] = to_places([field_id(ice, key) for key in settings.primary_key])
    spec = PartitionSpec(
        *(
            IcePartitionField(
                source_id=field_id(ice, column),
                field_id=1000 + i,
                transform=parse_transform(transform),
                name=free_name((column, transform, field_name), ice.column_names),
            )
            for i, (column, transform, field_name) in enumerate(settings.partition_by)
        )
    )
    return {
        "schema": ice,
        "location": settings.location,
        "partition_spec": spec,
        "sort_order": new_sort_order(ice, settings.cluster_by),
        "properties": kept,
    }


# Tables of metadata files that were opened without a catalog.
_opened: LruCache[IceTable] = LruCache(KEPT_METADATA)
