"""The only module that imports pyiceberg: catalogs, metadata, manifests and commits.

What the rest of nimblepy sees are the plain values of :mod:`nimblepy.table.model`. pyiceberg writes
and validates the metadata; the snapshots, their manifests and the retries of commits are made here,
from its public classes. The few things that are not public are checked by :func:`self_test` when
the module is loaded, so that a version that moved them says so at once.
"""

from __future__ import annotations

import contextlib
import getpass
import io
import json
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import pyarrow as pa
import pyarrow.types as pt
import pyiceberg
from pyiceberg.avro.codecs import KNOWN_CODECS
from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.resolver import resolve_writer
from pyiceberg.catalog import Catalog, MetastoreCatalog, load_catalog
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
    ValidationError,
)
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundEqualTo,
    BoundGreaterThan,
    BoundGreaterThanOrEqual,
    BoundIn,
    BoundIsNaN,
    BoundIsNull,
    BoundLessThan,
    BoundLessThanOrEqual,
    BoundLiteralPredicate,
    BoundNotEqualTo,
    BoundNotNull,
    BoundPredicate,
    BoundStartsWith,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotNull,
    Or,
    StartsWith,
)
from pyiceberg.expressions import visitors as ice_visitors
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    DEFAULT_READ_VERSION,
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    PARTITION_FIELD_SUMMARY_TYPE,
    UNASSIGNED_SEQ,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
    construct_partition_summaries,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.manifest import DataFile as IceDataFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.partitioning import PartitionField as IcePartitionField
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, StaticTable, TableProperties
from pyiceberg.table import Table as IceTable
from pyiceberg.table import Transaction as IceTransaction
from pyiceberg.table import update as ice_update
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.name_mapping import parse_mapping_from_json
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.snapshots import Snapshot as IceSnapshot
from pyiceberg.table.sorting import (
    UNSORTED_SORT_ORDER,
    NullOrder,
    SortDirection,
    SortField,
    SortOrder,
)
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetSnapshotRefUpdate,
    update_table_metadata,
)
from pyiceberg.transforms import IdentityTransform, parse_transform
from pyiceberg.typedef import EMPTY_DICT, Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from pyiceberg.utils.config import Config
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from nimblepy.errors import (
    CorruptFileError,
    InvalidArgumentError,
    NimbleError,
    UnsupportedVersionError,
)
from nimblepy.expr import nodes
from nimblepy.io.location import locate
from nimblepy.io.remote_file import at_once, connections
from nimblepy.io.sync import sync_path
from nimblepy.schema.columns import column_paths, resolve_column
from nimblepy.schema.field_ids import FIELD_ID, field_id_at
from nimblepy.schema.names import ColumnName
from nimblepy.schema.types import SortKey
from nimblepy.schema.values import is_nan
from nimblepy.table.avro import (
    BAD_BYTES,
    Source,
    container,
    encoded_long,
    fields_by_id,
    read_container,
    records_of,
    without_null,
)
from nimblepy.table.catalog_rows import CatalogRows, NameTaken
from nimblepy.table.manifests import ManifestFiles, RawEntry, manifest_files
from nimblepy.table.metadata_json import SnapshotTexts, with_snapshots
from nimblepy.table.model import (
    BATCH_PREFIX,
    PLAN_INDEX,
    Content,
    DataFile,
    Entry,
    Manifest,
    Metrics,
    PartitionField,
    Reference,
    Snapshot,
)
from nimblepy.table.otree.blocks import (
    BLOBS,
    MOST_BLOBS,
    Blocks,
    blob_names,
    new_blocks,
    read_blobs,
)
from nimblepy.table.places import remove_file
from nimblepy.table.pruning import Always, Both, Leaf, Op, Test
from nimblepy.table.recent import Recent
from nimblepy.table.values import constant, internal_value

_EXISTING = ManifestEntryStatus.EXISTING.value
MAIN = "main"
NAME_MAPPING = "schema.name-mapping.default"
_DELETE_METADATA = "write.metadata.delete-after-commit.enabled"
# Retries of a commit that lost to another, and the waits between them in seconds.
MOST_ATTEMPTS = 100
_FIRST_WAIT = 0.005
_LONGEST_WAIT = 0.2
# Metadata of tables, and lists of manifests, that are kept in memory.
_KEPT_METADATA = 16
_KEPT_RECORDS = 20_000
# Manifests with as few files are written again as one, where files of them are removed.
_SHORT_MANIFEST = 64

_CONTENTS: dict[Any, Content] = {
    DataFileContent.DATA: "data",
    DataFileContent.POSITION_DELETES: "position deletes",
    DataFileContent.EQUALITY_DELETES: "equality deletes",
}
_CONTENT_OF = {name: value for value, name in _CONTENTS.items()}


def _register_format(name: str) -> Any:
    """Makes ``name`` a file format that pyiceberg reads from and writes to manifests."""
    known = FileFormat.__members__.get(name)
    if known is not None:
        return known
    member = str.__new__(FileFormat, name)
    member._name_ = name
    member._value_ = name
    FileFormat._member_names_.append(name)
    FileFormat._member_map_[name] = member
    FileFormat._value2member_map_[name] = member
    type.__setattr__(FileFormat, name, member)
    return member


def self_test() -> None:
    """Checks what is used of pyiceberg beyond its public interface.

    Raises:
        ImportError: this version is another one than nimblepy was written for; the message names
            what was not found.
    """
    wrong = []
    if _register_format("NIMBLEPY") is not FileFormat("NIMBLEPY"):
        wrong.append("FileFormat takes no new member")
    if FileFormat("PARQUET") is not FileFormat.PARQUET:
        wrong.append("FileFormat has lost its members")
    for owner, name in (
        (MetastoreCatalog, "_convert_schema_if_needed"),
        (MetastoreCatalog, "_empty_table_metadata"),
        (MetastoreCatalog, "_get_updated_props_and_update_summary"),
        (MetastoreCatalog, "_load_file_io"),
        (MetastoreCatalog, "_parse_metadata_version"),
        (MetastoreCatalog, "_resolve_table_location"),
        (MetastoreCatalog, "_write_metadata"),
        (ice_update, "_apply_table_update"),
        (ice_update, "_TableMetadataUpdateContext"),
        (ice_update, "_update_table_metadata_log"),
        (ice_visitors, "_StrictMetricsEvaluator"),
        (IceDataFile, "from_args"),
        (ManifestEntry, "from_args"),
    ):
        if not hasattr(owner, name):
            wrong.append(f"{owner.__name__} has no {name}")
    if wrong:
        raise ImportError(
            f"pyiceberg {pyiceberg.__version__} does not fit this nimblepy, which needs "
            f">=0.12,<0.13: {'; '.join(wrong)}"
        )


self_test()


# ------------------------------------------------------------------ files on this machine


def local_path(location: str) -> str | None:
    """The path of a location on this machine; ``None``: it is somewhere else."""
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
    """A new file that is on the disk once it is closed."""

    def __init__(self, path: str, mode: str) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        super().__init__(io.FileIO(path, mode))

    def close(self) -> None:
        if not self.closed:
            self.flush()
            os.fsync(self.fileno())
        super().close()


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
    """A new file of a store, which is there once this is closed without an error."""

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
    """Whether there is such a file is not looked at: names of metadata are never given twice."""

    def __len__(self) -> int:
        return len(_StoredInput(self.location))

    def exists(self) -> bool:
        return _StoredInput(self.location).exists()

    def to_input_file(self) -> InputFile:
        return _StoredInput(self.location)

    def create(self, overwrite: bool = False) -> Any:
        return _Stored(self.location)


class OwnIO(FileIO):
    """Metadata files where data files are, read and written as these are: by one configuration.

    On this machine they are found by their exact path, and synced when they are written:
    pyiceberg's own reads a path as a URI, so that ``#`` and ``?`` end it. In a store a file is one
    request.
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
    """Whether a location is on this machine."""
    return local_path(location) is not None


# Properties by which pyiceberg is told of a store; ours is told by the environment.
_STORE_PROPERTIES = ("py-io-impl", "s3.", "gcs.", "adls.", "hf.")


def _path(location: str) -> str:
    path = local_path(location)
    if path is None:
        raise InvalidArgumentError(f"{location}: not a place on this machine")
    return path


# ------------------------------------------------------------------ catalogs


class _SqliteCatalog(MetastoreCatalog):
    """The catalog in a SQLite database, whose commits cost the same however long the history is.

    Its rows are those of pyiceberg's ``SqlCatalog``, which may be used beside it. The library
    reads, validates, copies and serialises all metadata at each commit. Metadata files and the
    objects made of them never change, so here what was read or made is used again, what a commit
    leaves alone is shared, and snapshots keep the JSON that was made of them. A metadata file of a
    lost commit is not left behind.
    """

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self._rows = CatalogRows(properties["uri"], name)
        self._known: Recent[Any] = Recent(_KEPT_METADATA)
        self._texts = SnapshotTexts(_KEPT_METADATA)

    # ---------------------------------------------------------------- tables

    def load_table(self, identifier: Any) -> IceTable:
        namespace, name = _split(identifier)
        location = self._rows.location(namespace, name)
        if not location:
            raise NoSuchTableError(f"Table does not exist: {namespace}.{name}")
        metadata = self._known.get(location)
        if metadata is None:
            file = self._load_file_io(location=location).new_input(location)
            metadata = FromInputFile.table_metadata(file)
            self._known.put(location, metadata)
        return IceTable(
            identifier=(*namespace.split("."), name),
            metadata=metadata,
            metadata_location=location,
            io=self._load_file_io(metadata.properties, location),
            catalog=self,
        )

    def create_table(
        self,
        identifier: Any,
        schema: Any,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Any = EMPTY_DICT,
    ) -> IceTable:
        namespace, name = _split(identifier)
        self._check_namespace(namespace)
        version = properties.get("format-version", TableProperties.DEFAULT_FORMAT_VERSION)
        metadata = new_table_metadata(
            location=self._resolve_table_location(location, namespace, name),
            schema=self._convert_schema_if_needed(schema, cast(Any, int(version))),
            partition_spec=partition_spec,
            sort_order=sort_order,
            properties=properties,
        )
        self._add(namespace, name, metadata)
        return self.load_table(identifier)

    def _add(self, namespace: str, name: str, metadata: Any) -> str:
        """Writes the metadata of a new table, and makes the table; gives where the metadata is."""
        location = _metadata_location(metadata, 0)
        with self._written(metadata, location):
            try:
                self._rows.add(namespace, name, location)
            except NameTaken:
                raise TableAlreadyExistsError(f"{namespace}.{name} already exists") from None
        return location

    def register_table(
        self, identifier: Any, metadata_location: str, overwrite: bool = False
    ) -> IceTable:
        if overwrite:
            raise NotImplementedError("register_table: overwrite")
        namespace, name = _split(identifier)
        self._check_namespace(namespace)
        try:
            self._rows.add(namespace, name, metadata_location)
        except NameTaken:
            raise TableAlreadyExistsError(f"{namespace}.{name} already exists") from None
        return self.load_table(identifier)

    def drop_table(self, identifier: Any) -> None:
        namespace, name = _split(identifier)
        if not self._rows.remove(namespace, name):
            raise NoSuchTableError(f"Table does not exist: {namespace}.{name}")

    def rename_table(self, from_identifier: Any, to_identifier: Any) -> IceTable:
        old, new = _split(from_identifier), _split(to_identifier)
        self._check_namespace(new[0])
        try:
            if not self._rows.rename(old, new):
                raise NoSuchTableError(f"Table does not exist: {'.'.join(old)}")
        except NameTaken:
            raise TableAlreadyExistsError(f"{'.'.join(new)} already exists") from None
        return self.load_table(to_identifier)

    def list_tables(self, namespace: Any) -> list[Any]:
        space = Catalog.namespace_to_string(namespace)
        self._check_namespace(space)
        return [(*space.split("."), name) for name in self._rows.names(space)]

    def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
        namespace, name = _split(table.name())
        try:
            current = self.load_table(table.name())
        except NoSuchTableError:
            for requirement in requirements:
                requirement.validate(None)
            made = update_table_metadata(
                self._empty_table_metadata(), updates, enforce_validation=True
            )
            return CommitTableResponse(
                metadata=made, metadata_location=self._add(namespace, name, made)
            )
        for requirement in requirements:
            requirement.validate(current.metadata)
        before = current.metadata_location
        metadata = _updated(current.metadata, updates, before)
        if metadata == current.metadata:
            return CommitTableResponse(metadata=metadata, metadata_location=before)
        location = _metadata_location(metadata, self._parse_metadata_version(before) + 1)
        with self._written(metadata, location):
            if not self._rows.swap(namespace, name, before, location):
                raise CommitFailedException(f"{namespace}.{name} was updated by another process")
        return CommitTableResponse(metadata=metadata, metadata_location=location)

    @contextlib.contextmanager
    def _written(self, metadata: Any, location: str) -> Iterator[None]:
        """Writes a metadata file, which goes again where the commit that names it is refused."""
        io = self._load_file_io(metadata.properties, location)
        self._write_metadata(metadata, io, location)
        try:
            yield
        except (CommitFailedException, TableAlreadyExistsError):
            with contextlib.suppress(OSError):
                io.delete(location)
            raise
        self._known.put(location, metadata)

    def _write_metadata(self, metadata: Any, io: FileIO, metadata_path: str) -> None:
        if (
            metadata.format_version != 2
            or metadata_path.endswith(".gz.metadata.json")
            or Config().get_bool("legacy-current-snapshot-id")
        ):
            MetastoreCatalog._write_metadata(metadata, io, metadata_path)
        else:
            text = with_snapshots(
                metadata.model_dump_json(exclude={"snapshots"}),
                self._texts.of(
                    str(metadata.table_uuid),
                    metadata.snapshots,
                    lambda snapshot: str(snapshot.model_dump_json()),
                ),
            )
            with io.new_output(metadata_path).create() as sink:
                sink.write(text.encode())
        self._sync_names(metadata.location, metadata_path)

    def _sync_names(self, location: str, metadata_path: str) -> None:
        """Puts the names of all metadata files, and of new directories, on the disk."""
        folder, root = local_path(metadata_path), local_path(location)
        if folder is None or root is None:
            return
        if self._parse_metadata_version(metadata_path) == 0:  # the table is new
            root = local_path(self.properties.get("warehouse", location)) or root
        folder = os.path.dirname(folder)
        sync_path(folder)
        while folder.startswith(root.rstrip("/") + "/"):
            folder = os.path.dirname(folder)
            sync_path(folder)

    # ---------------------------------------------------------------- namespaces

    def namespace_exists(self, namespace: Any) -> bool:
        space = Catalog.namespace_to_string(namespace, NoSuchNamespaceError)
        return any(f"{known}.".startswith(f"{space}.") for known in self._rows.namespaces())

    def _check_namespace(self, namespace: str) -> None:
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
            self._check_namespace(Catalog.namespace_to_string(above))
        known = {tuple(name.split(".")) for name in self._rows.namespaces()}
        level = len(above) + 1
        return sorted(
            {name[:level] for name in known if len(name) >= level and name[: level - 1] == above}
        )

    def load_namespace_properties(self, namespace: Any) -> Any:
        space = Catalog.namespace_to_string(namespace)
        self._check_namespace(space)
        return self._rows.properties(space)

    def update_namespace_properties(
        self, namespace: Any, removals: set[str] | None = None, updates: Any = EMPTY_DICT
    ) -> Any:
        known = self.load_namespace_properties(namespace)
        summary, _ = self._get_updated_props_and_update_summary(known, removals, updates)
        space = Catalog.namespace_to_string(namespace)
        self._rows.change_properties(space, removals or (), updates)
        return summary

    # ---------------------------------------------------------------- views, of which it has none

    def list_views(self, namespace: Any) -> list[Any]:
        return []

    def view_exists(self, identifier: Any) -> bool:
        return False

    def load_view(self, identifier: Any) -> Any:
        raise NoSuchViewError(f"View does not exist: {identifier}")

    def register_view(self, identifier: Any, metadata_location: str) -> Any:
        raise NotImplementedError("views")

    def drop_view(self, identifier: Any) -> None:
        raise NoSuchViewError(f"View does not exist: {identifier}")


def _split(identifier: Any) -> tuple[str, str]:
    """(namespace, name) of a table, as the rows of a catalog have them."""
    return (
        Catalog.namespace_to_string(Catalog.namespace_from(identifier)),
        Catalog.table_name_from(identifier),
    )


def _metadata_location(metadata: Any, version: int) -> str:
    """Where a new metadata file of a table lies."""
    places = load_location_provider(metadata.location, metadata.properties)
    return str(places.new_table_metadata_file_location(version))


def _updated(base: Any, updates: Any, location: str) -> Any:
    """The metadata after some updates, which shares with that of before what they leave alone."""
    context = ice_update._TableMetadataUpdateContext()
    made = base
    # Time does not go back in the metadata, though clocks do; readers refuse a log that does.
    earliest = base.last_updated_ms + 1
    for update in updates:
        log = made.snapshot_log
        made = ice_update._apply_table_update(update, made, context)
        if len(made.snapshot_log) > len(log) and made.snapshot_log[-1].timestamp_ms < earliest:
            entry = made.snapshot_log[-1].model_copy(update={"timestamp_ms": earliest})
            made = made.model_copy(update={"snapshot_log": [*made.snapshot_log[:-1], entry]})
        if isinstance(update, RemoveSnapshotsUpdate):
            gone = set(update.snapshot_ids)
            made = made.model_copy(
                update={
                    "snapshot_log": _log_after(log, gone),
                    # The library removes the other statistics of these snapshots, not these.
                    "partition_statistics": [
                        item for item in made.partition_statistics if item.snapshot_id not in gone
                    ],
                }
            )
    if context.has_changes():
        made = ice_update._update_table_metadata_log(made, location, base.last_updated_ms)
        untold = made.last_updated_ms == base.last_updated_ms
        updated = int(time.time() * 1000) if untold else made.last_updated_ms
        made = made.model_copy(update={"last_updated_ms": max(updated, earliest)})
    made.spec().check_compatible(made.schema())
    made.sort_order().check_compatible(made.schema())
    return made


def _log_after(log: Sequence[Any], gone: set[int]) -> list[Any]:
    """The entries after the last one of a removed snapshot.

    Those before it would say that their snapshots were the newest when others were.
    """
    last = max((i for i, entry in enumerate(log) if entry.snapshot_id in gone), default=-1)
    return list(log[last + 1 :])


def open_directory(directory: str) -> Catalog:
    """The catalog that lies in a directory with its tables; made where there is none."""
    os.makedirs(directory, exist_ok=True)
    return open_sqlite(f"sqlite:///{directory}/catalog.db?timeout=60", f"file://{directory}")


def open_sqlite(uri: str, warehouse: str, **properties: str) -> Catalog:
    """The catalog in a SQLite database, which is made where there is none."""
    if not any(name.startswith(_STORE_PROPERTIES) for name in properties):
        properties = {"py-io-impl": f"{__name__}.OwnIO", **properties}
    return _SqliteCatalog("nimble", uri=uri, warehouse=warehouse, **properties)


def open_uri(uri: str, properties: Mapping[str, str]) -> Catalog:
    """A catalog of any kind that pyiceberg knows."""
    kinds = {}
    if uri.startswith("rest:"):
        kinds, uri = {"type": "rest"}, uri.removeprefix("rest:")
    try:
        return load_catalog("nimble", uri=uri, **kinds, **properties)
    except (ValueError, pyiceberg.exceptions.RESTError) as error:
        raise InvalidArgumentError(f"connect: {uri!r}: {error}") from error


def is_catalog(value: object) -> bool:
    return isinstance(value, Catalog)


class TableExists(Exception):
    """There is a table of this name."""


class NoSuchTable(Exception):
    """There is no table of this name."""


def create_namespace(catalog: Catalog, namespace: tuple[str, ...]) -> None:
    """Makes a namespace; one that is there already is left alone."""
    try:
        catalog.create_namespace(namespace)
    except NamespaceAlreadyExistsError:
        return
    except Exception as error:
        # Another process made it in between, which the SQL catalog does not tell.
        if type(error).__module__.split(".")[0] != "sqlalchemy":
            raise
        if namespace not in catalog.list_namespaces():
            raise


def list_namespaces(catalog: Catalog) -> list[tuple[str, ...]]:
    """All namespaces, nested ones included."""
    found: list[tuple[str, ...]] = []
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        for name in catalog.list_namespaces(waiting.pop()):
            if name not in found:
                found.append(name)
                waiting.append(name)
    return sorted(found)


def list_tables(catalog: Catalog, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
    try:
        return sorted(tuple(name) for name in catalog.list_tables(namespace))
    except NoSuchNamespaceError:
        shown = ".".join(namespace)
        raise InvalidArgumentError(f"there is no namespace {shown!r}") from None


def load_table(catalog: Catalog, name: tuple[str, ...]) -> Metadata:
    """The newest metadata of a table.

    Raises:
        NoSuchTable: there is none.

    Cost: one read, of the metadata file.
    """
    try:
        return Metadata(catalog.load_table(name))
    except (NoSuchTableError, NoSuchNamespaceError):
        raise NoSuchTable from None


def metadata_at(path: str, properties: Mapping[str, str]) -> Metadata:
    """The metadata in a file, which nothing can be committed to.

    Args:
        properties: as :attr:`Metadata.io_properties` has them.

    Cost: one read, unless this process has read it just before.
    """
    known = _opened.get(path)
    if known is None:
        known = StaticTable.from_metadata(path, dict(properties))
        _opened.put(path, known)
    return Metadata(known)


def drop_table(catalog: Catalog, name: tuple[str, ...]) -> None:
    try:
        catalog.drop_table(name)
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
    catalog: Catalog,
    name: tuple[str, ...],
    schema: pa.Schema,
    *,
    location: str | None,
    primary_key: Sequence[str],
    cluster_by: Sequence[SortKey],
    partition_by: Sequence[tuple[str, str, str]],
    properties: Mapping[str, str],
) -> Metadata:
    """Makes an empty table.

    Args:
        schema: types that tables have, see ``types.py``.
        partition_by: (column, transform, name) of each partition field.

    Raises:
        TableExists: there is one of this name.
    """
    ice = to_iceberg(schema, primary_key)
    spec = PartitionSpec(
        *(
            IcePartitionField(
                source_id=_field_id(ice, column),
                field_id=1000 + i,
                transform=parse_transform(transform),
                name=field_name,
            )
            for i, (column, transform, field_name) in enumerate(partition_by)
        )
    )
    try:
        made = catalog.create_table(
            name,
            ice,
            location=location,
            partition_spec=spec,
            sort_order=_sort_order(ice, cluster_by),
            properties=dict(properties),
        )
    except TableAlreadyExistsError:
        raise TableExists from None
    except ValueError as error:
        raise InvalidArgumentError(f"create_table: {error}") from error
    return Metadata(made)


def _sort_order(schema: Schema, keys: Sequence[SortKey]) -> SortOrder:
    return SortOrder(
        *(
            SortField(
                source_id=_field_id(schema, key.column),
                transform=IdentityTransform(),
                direction=SortDirection.DESC if key.descending else SortDirection.ASC,
                null_order=NullOrder.NULLS_FIRST if key.nulls_first else NullOrder.NULLS_LAST,
            )
            for key in keys
        )
    )


def _field_id(schema: Schema, name: ColumnName) -> int:
    column = resolve_column(to_arrow(schema), name)
    return field_id_at(to_arrow(schema), column.path)


# ------------------------------------------------------------------ schemas

_PRIMITIVES: list[tuple[type[PrimitiveType], pa.DataType]] = [
    (BooleanType, pa.bool_()),
    (IntegerType, pa.int32()),
    (LongType, pa.int64()),
    (FloatType, pa.float32()),
    (DoubleType, pa.float64()),
    (DateType, pa.date32()),
    (TimeType, pa.time64("us")),
    (TimestampType, pa.timestamp("us")),
    (TimestamptzType, pa.timestamp("us", "UTC")),
    (StringType, pa.string()),
    (BinaryType, pa.binary()),
    (UUIDType, pa.binary(16)),
]


def to_arrow(schema: Schema) -> pa.Schema:
    """The Arrow schema of a table, with a field id in the metadata of every field."""
    return pa.schema([_arrow_field(item) for item in schema.fields])


def _arrow_field(item: NestedField, name: str | None = None) -> pa.Field:
    return pa.field(
        name or item.name,
        _arrow_type(item.field_type),
        nullable=not item.required,
        metadata={FIELD_ID: str(item.field_id).encode()},
    )


def _arrow_type(kind: IcebergType) -> pa.DataType:
    if isinstance(kind, StructType):
        return pa.struct([_arrow_field(item) for item in kind.fields])
    if isinstance(kind, ListType):
        return pa.list_(_arrow_field(kind.element_field, "element"))
    if isinstance(kind, MapType):
        return pa.map_(_arrow_field(kind.key_field, "key"), _arrow_field(kind.value_field, "value"))
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, FixedType):
        return pa.binary(len(kind))
    for known, arrow in _PRIMITIVES:
        if isinstance(kind, known):
            return arrow
    raise UnsupportedVersionError(f"a table with the type {kind}, which nimblepy does not read")


def to_iceberg(schema: pa.Schema, primary_key: Sequence[str] = ()) -> Schema:
    """The Iceberg schema for an Arrow one, with new field ids."""
    numbers = iter(range(1, 1 << 30))

    def nested(item: pa.Field, required: bool) -> NestedField:
        return NestedField(
            field_id=next(numbers),
            name=item.name,
            field_type=kind_of(item.type),
            required=required,
            doc=_doc(item),
        )

    def kind_of(kind: pa.DataType) -> IcebergType:
        if pt.is_struct(kind):
            return StructType(*(nested(item, not item.nullable) for item in kind))
        if pt.is_list(kind):
            element = nested(kind.value_field.with_name("element"), not kind.value_field.nullable)
            return ListType(element.field_id, element.field_type, element.required)
        if pt.is_map(kind):
            key, value = nested(kind.key_field, True), nested(kind.item_field, False)
            return MapType(
                key.field_id,
                key.field_type,
                value.field_id,
                value.field_type,
                not kind.item_field.nullable,
            )
        return _primitive(kind)

    fields = [nested(item, not item.nullable or item.name in primary_key) for item in schema]
    ids = [item.field_id for item in fields if item.name in primary_key]
    return Schema(*fields, identifier_field_ids=ids)


def fresh(schema: Schema) -> Schema:
    """The schema with the field ids that a new table will have."""
    return cast(Schema, assign_fresh_schema_ids(schema))


def _doc(item: pa.Field) -> str | None:
    found = (item.metadata or {}).get(b"doc")
    return None if found is None else found.decode()


def _primitive(kind: pa.DataType) -> IcebergType:
    if pt.is_decimal128(kind):
        return DecimalType(kind.precision, kind.scale)
    if pt.is_fixed_size_binary(kind):
        return FixedType(kind.byte_width)
    for known, arrow in _PRIMITIVES:
        if kind.equals(arrow):
            return known()
    raise InvalidArgumentError(f"{kind}: no type of a table")


# ------------------------------------------------------------------ metadata


class Metadata:
    """One version of a table's metadata. Immutable.

    Attributes:
        ice: the table as pyiceberg has it.
        reads: metadata files that were read through this object.
    """

    def __init__(self, ice: IceTable) -> None:
        self.ice = ice
        self.reads = 1
        self._schemas: dict[int, pa.Schema] = {}

    @property
    def name(self) -> tuple[str, ...]:
        return tuple(self.ice.name())

    @property
    def uuid(self) -> str:
        return str(self.ice.metadata.table_uuid)

    @property
    def location(self) -> str:
        return str(self.ice.metadata.location)

    @property
    def distant(self) -> bool:
        """Whether it lies in a store, so that to wait for an answer costs more than its bytes."""
        return not is_here(self.location)

    @property
    def metadata_file(self) -> str:
        return str(self.ice.metadata_location)

    @property
    def io_properties(self) -> dict[str, str]:
        """How the files of the table are read, credentials included."""
        return {name: str(value) for name, value in self.ice.io.properties.items()}

    @property
    def format_version(self) -> int:
        return int(self.ice.metadata.format_version)

    @property
    def properties(self) -> dict[str, str]:
        return dict(self.ice.metadata.properties)

    @property
    def schema_id(self) -> int:
        return int(self.ice.metadata.current_schema_id)

    def schema(self, schema_id: int | None = None) -> pa.Schema:
        """The Arrow schema; ``None`` is the current one."""
        wanted = self.schema_id if schema_id is None else schema_id
        known = self._schemas.get(wanted)
        if known is None:
            known = self._schemas[wanted] = to_arrow(self._ice_schema(wanted))
        return known

    def _ice_schema(self, schema_id: int | None) -> Schema:
        metadata = self.ice.metadata
        wanted = metadata.current_schema_id if schema_id is None else schema_id
        return next(schema for schema in metadata.schemas if schema.schema_id == wanted)

    def column_name(self, number: int) -> str | None:
        """The dotted name of a column of the current schema."""
        return self._ice_schema(None).find_column_name(number)

    @property
    def name_mapping(self) -> str | None:
        """What files without field ids call the columns, as the table's property has it."""
        return self.properties.get(NAME_MAPPING)

    def new_name_mapping(self) -> str:
        """The mapping of today's names."""
        return self._ice_schema(None).name_mapping.model_dump_json()

    def mapped_names(self) -> dict[tuple[str, ...], int]:
        """Field ids by path of names, of files that have no ids."""
        return _mapped_names(self.name_mapping)

    def defaults(self, schema_id: int | None) -> dict[int, pa.Scalar]:
        """What a column is read as in files of before it was added, by field id."""
        schema = self._ice_schema(schema_id)
        arrow = self.schema(schema_id)
        return {
            item.field_id: constant(arrow.field(i).type, item.initial_default)
            for i, item in enumerate(schema.fields)
            if item.initial_default is not None
        }

    def primary_key(self, schema_id: int | None = None) -> list[str]:
        schema = self._ice_schema(schema_id)
        names = (schema.find_column_name(number) for number in schema.identifier_field_ids)
        return [name for name in names if name is not None]

    def cluster_by(self, schema_id: int | None = None) -> list[SortKey]:
        """The order of rows in each file; what is no column alone ends it."""
        schema = self._ice_schema(schema_id)
        keys = []
        for item in self.ice.metadata.sort_order().fields:
            name = schema.find_column_name(item.source_id)
            if name is None or not isinstance(item.transform, IdentityTransform):
                break
            first = item.null_order == NullOrder.NULLS_FIRST
            descending = item.direction == SortDirection.DESC
            keys.append(SortKey(name, descending=descending, nulls_first=first))
        return keys

    @property
    def sort_order_id(self) -> int:
        return int(self.ice.metadata.default_sort_order_id)

    @property
    def spec_id(self) -> int:
        return int(self.ice.metadata.default_spec_id)

    def spec(self, spec_id: int | None = None) -> list[PartitionField]:
        """Fields of a partition spec; ``None`` is the current one."""
        found = self._ice_spec(self.spec_id if spec_id is None else spec_id)
        return [
            PartitionField(
                source_id=item.source_id,
                field_id=item.field_id,
                name=item.name,
                transform=str(item.transform),
            )
            for item in found.fields
        ]

    def leaf_types(self, schema_id: int | None = None) -> dict[int, pa.DataType]:
        """Types of the columns that have statistics, by field id; members of structs have them."""
        schema = self.schema(schema_id)
        found = {}
        for path in column_paths(schema):
            kind = schema.field(path[0]).type
            for name in path[1:]:
                if not pt.is_struct(kind):
                    break
                kind = kind.field(name).type
            else:
                if not pt.is_nested(kind):
                    found[field_id_at(schema, path)] = kind
        return found

    def partition_types(self) -> dict[int, list[tuple[int, pa.DataType]]]:
        """(field id, type of its values) of the fields of each partition spec."""
        schema = self._ice_schema(None)
        found = {}
        for spec_id, spec in self.ice.metadata.specs().items():
            with contextlib.suppress(ValueError):  # a source was dropped
                kinds = spec.partition_type(schema).fields
                found[spec_id] = [(f.field_id, _arrow_type(f.field_type)) for f in kinds]
        return found

    def first_cluster_id(self) -> int | None:
        """Field id of the first column of the cluster key."""
        fields = self.ice.metadata.sort_order().fields
        return fields[0].source_id if fields and self.cluster_by() else None

    def spec_sources(self) -> set[int]:
        """Field ids of all columns that any partition spec is about."""
        return {f.source_id for spec in self.ice.metadata.partition_specs for f in spec.fields}

    def _ice_spec(self, spec_id: int) -> PartitionSpec:
        return self.ice.metadata.specs()[spec_id]

    # ---------------------------------------------------------------- snapshots and references

    @property
    def snapshots(self) -> list[Snapshot]:
        """All that were not expired, in the order of their commits."""
        found = [_plain_snapshot(item) for item in self.ice.metadata.snapshots]
        return sorted(found, key=lambda item: item.sequence)

    def snapshot(self, number: int) -> Snapshot | None:
        found = self.ice.metadata.snapshot_by_id(number)
        return None if found is None else _plain_snapshot(found)

    @property
    def references(self) -> dict[str, Reference]:
        """Tags and branches by name; ``main`` is one."""
        return {
            name: Reference(
                snapshot=ref.snapshot_id,
                kind="tag" if ref.snapshot_ref_type == SnapshotRefType.TAG else "branch",
                least_snapshots=ref.min_snapshots_to_keep,
                snapshot_age_ms=ref.max_snapshot_age_ms,
                age_ms=ref.max_ref_age_ms,
            )
            for name, ref in self.ice.metadata.refs.items()
        }

    def head(self, branch: str = MAIN) -> Snapshot | None:
        found = self.references.get(branch)
        return None if found is None else self.snapshot(found.snapshot)

    def snapshot_at(self, timestamp_ms: int) -> Snapshot | None:
        """The snapshot that ``main`` was at this time; ``None``: it had none yet, or that expired.

        Some writers take the entries of expired snapshots out of the log and leave those before.
        So an entry counts until the next one only where none can have been between the two.
        """
        log = self.ice.metadata.snapshot_log
        passed = [i for i, entry in enumerate(log) if entry.timestamp_ms <= timestamp_ms]
        if not passed:
            return None
        at = passed[-1]
        found = self.snapshot(log[at].snapshot_id)
        if found is None or at == len(log) - 1:
            return found
        after = self.snapshot(log[at + 1].snapshot_id)
        follows = after is not None and after.parent == found.id
        return found if follows or self._none_gone_since(found) else None

    def _none_gone_since(self, snapshot: Snapshot) -> bool:
        """Whether all snapshots that were committed after one are still there."""
        metadata = self.ice.metadata
        if metadata.format_version < 2:
            return False  # they have no sequence numbers
        later = sum((item.sequence_number or 0) > snapshot.sequence for item in metadata.snapshots)
        return bool(later == metadata.last_sequence_number - snapshot.sequence)

    def ancestors(self, snapshot: Snapshot | None) -> Iterator[Snapshot]:
        """A snapshot and those before it, newest first, as far as they are known."""
        while snapshot is not None:
            yield snapshot
            snapshot = None if snapshot.parent is None else self.snapshot(snapshot.parent)

    def metadata_files(self) -> list[str]:
        """This metadata file and those before it that the log names."""
        older = [entry.metadata_file for entry in self.ice.metadata.metadata_log]
        return [self.metadata_file, *older]

    def statistics_files(self) -> list[tuple[str, int]]:
        """Files of statistics that other engines have written: (path, id of the snapshot)."""
        metadata = self.ice.metadata
        return [
            (item.statistics_path, item.snapshot_id)
            for item in (*metadata.statistics, *metadata.partition_statistics)
        ]

    def document_bytes(self) -> int:
        """Bytes of this metadata file; one that is gone, of a newer version, has none."""
        try:
            return len(self.ice.io.new_input(self.metadata_file))
        except FileNotFoundError:
            return 0

    # ---------------------------------------------------------------- manifests

    def manifests(self, snapshot: Snapshot) -> list[Manifest]:
        """The manifests of a snapshot.

        Cost: one read, of its manifest list, unless that was read or written just before.
        """
        known = _lists.get(snapshot.manifest_list)
        if known is not None:
            return list(known)
        self.reads += 1
        try:
            with self.ice.io.new_input(snapshot.manifest_list).open() as source:
                data = source.read()
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"{snapshot.manifest_list}: the manifest list of snapshot {snapshot.id} is gone; "
                "the snapshot has expired. Call refresh()"
            ) from error
        specs = self.ice.metadata.specs()
        fields = {number: len(spec.fields) for number, spec in specs.items()}
        with _decoding(snapshot.manifest_list, "manifest list"):
            found = [
                _plain_manifest(item) for item in _listed(data, snapshot.manifest_list, fields)
            ]
        _lists.put(snapshot.manifest_list, found)
        return list(found)

    def entries(self, manifest: Manifest) -> list[Entry]:
        """The live files of a manifest. Cost: one read."""
        return [
            Entry(_plain_file(entry.data_file), entry.sequence_number or 0, manifest.path, entry)
            for entry in self._raw_entries(manifest)
            if entry.status != ManifestEntryStatus.DELETED
        ]

    def _raw_entries(self, manifest: Manifest) -> list[ManifestEntry]:
        """All files of a manifest, removed ones too, as the library has them."""
        data = self._read(manifest.path)
        spec = self._ice_spec(manifest.spec_id)
        with _decoding(manifest.path, "manifest"):
            return list(_entries(data, manifest.raw, spec))

    def columns(self, manifests: Sequence[Manifest]) -> Iterator[ManifestFiles]:
        """The live files of each manifest, as columns.

        Cost: one read each; what lies in a store is asked for at once, and before this returns.
        """
        self.reads += len(manifests)
        paths = [manifest.path for manifest in manifests]
        found: Iterator[bytes]
        if len(paths) > 1 and self.distant:
            found = at_once(self._content, paths, connections())
        else:
            found = map(self._content, paths)
        return (
            self._decoded(manifest, data, None)[0]
            for manifest, data in zip(manifests, found, strict=True)
        )

    def encoded_entries(self, manifest: Manifest) -> tuple[ManifestFiles, list[bytes]]:
        """The live files of a manifest, and each as an entry of another one.

        Their descriptions are copied as they are, where they are of the form that is written now.
        """
        raw: list[RawEntry] = []
        files, schema = self._decoded(manifest, self._read(manifest.path), raw)
        if schema != json.loads(entry_schema(self, manifest.spec_id)):
            entries = self.entries(manifest)
            return files, [encoded_entry(self, manifest.spec_id, entry) for entry in entries]
        heads: dict[tuple[int | None, int, int], bytes] = {}
        found = []
        for snapshot, sequence, file_sequence, encoded in raw:
            head = heads.get((snapshot, sequence, file_sequence))
            if head is None:
                added = manifest.raw.added_snapshot_id if snapshot is None else snapshot
                numbers = [encoded_long(n) for n in (added, sequence, file_sequence)]
                head = encoded_long(_EXISTING) + b"".join(b"\x02" + n for n in numbers)
                heads[snapshot, sequence, file_sequence] = head
            found.append(head + encoded)
        return files, found

    def _decoded(
        self, manifest: Manifest, data: bytes, raw: list[RawEntry] | None
    ) -> tuple[ManifestFiles, Any]:
        container = read_container(data, new_decoder, _decompressor, manifest.path)
        with _decoding(manifest.path, "manifest"):
            fields = dict(fields_by_id(dict(fields_by_id(container.schema))[2]))[102]["fields"]
            if len(fields) != len(self._ice_spec(manifest.spec_id).fields):
                raise ValueError(f"{len(fields)} partition fields, of spec {manifest.spec_id}")
        files = manifest_files(
            container,
            new_decoder,
            path=manifest.path,
            spec_id=manifest.spec_id,
            sequence=manifest.raw.sequence_number,
            raw=raw,
        )
        return files, container.schema

    def first_partition_range(self, manifest: Manifest) -> tuple[Any, Any]:
        """Least and greatest value of the first partition field in a manifest, where known."""
        fields = self.partition_types()[manifest.spec_id]
        said = manifest.raw.partitions
        if not fields or not said or said[0].lower_bound is None or said[0].upper_bound is None:
            return None, None
        kind = cast(PrimitiveType, _primitive(fields[0][1]))
        return from_bytes(kind, said[0].lower_bound), from_bytes(kind, said[0].upper_bound)

    def blob_path(self, name: str) -> str:
        """Where a blob of cubes lies."""
        return f"{self.location}/metadata/{name}"

    def has_cubes(self, snapshot: Snapshot | None) -> bool:
        """Whether files of a snapshot may be those of an OTree."""
        return bool(blob_names(self.ancestors(snapshot)))

    def cubes(self, snapshot: Snapshot | None) -> Blocks:
        """The cubes of a snapshot's files, as far as blobs have them; some files may be gone."""
        names = blob_names(self.ancestors(snapshot))
        return read_blobs([self.blob_path(name) for name in names], self._read)

    def _read(self, path: str) -> bytes:
        self.reads += 1
        return self._content(path)

    def _content(self, path: str) -> bytes:
        with self.ice.io.new_input(path).open() as source:
            return bytes(source.read())

    def added_and_removed(self, snapshot: Snapshot) -> tuple[list[Entry], list[Entry]]:
        """Files that one commit added, and those it removed. Cost: reads the manifests it wrote."""
        added: list[Entry] = []
        removed: list[Entry] = []
        kinds = {ManifestEntryStatus.ADDED: added, ManifestEntryStatus.DELETED: removed}
        for manifest in self.manifests(snapshot):
            if manifest.raw.added_snapshot_id != snapshot.id:
                continue
            for entry in self._raw_entries(manifest):
                if entry.snapshot_id == snapshot.id and entry.status in kinds:
                    file, sequence = _plain_file(entry.data_file), entry.sequence_number or 0
                    kinds[entry.status].append(Entry(file, sequence, manifest.path, entry))
        return added, removed

    def pruner(self, conjuncts: Sequence[nodes.Node], schema_id: int | None) -> Pruner:
        """Tells which manifests and files may have rows for which all ``conjuncts`` are true."""
        return Pruner(self, conjuncts, schema_id)


# Tables of metadata files that were opened without a catalog.
_opened: Recent[IceTable] = Recent(_KEPT_METADATA)
_lists: Recent[list[Manifest]] = Recent(_KEPT_METADATA)
# What a list says of a manifest, by the path of the manifest.
_encoded: Recent[bytes] = Recent(_KEPT_RECORDS)


def forget_lists() -> None:
    """Forgets lists of manifests, so that they are read again."""
    global _lists
    _lists = Recent(_KEPT_METADATA)


def _plain_manifest(item: ManifestFile) -> Manifest:
    return Manifest(
        path=item.manifest_path,
        deletes=item.content == ManifestContent.DELETES,
        spec_id=item.partition_spec_id,
        files=_total(item.added_files_count, item.existing_files_count),
        rows=_total(item.added_rows_count, item.existing_rows_count),
        sequence=item.sequence_number or 0,
        bytes=item.manifest_length,
        raw=item,
    )


def _decompressor(name: str) -> Callable[[bytes], bytes] | None:
    """What undoes a codec of Avro; ``None``: nothing is to be undone."""
    if name not in KNOWN_CODECS:
        raise ValueError(f"the codec {name!r}; pyiceberg has {', '.join(KNOWN_CODECS)}")
    codec = KNOWN_CODECS[name]
    return None if codec is None else codec.decompress


@contextlib.contextmanager
def _decoding(path: str, what: str) -> Iterator[None]:
    """Bytes that are not what their schema says, or what Iceberg says, are damaged."""
    try:
        yield
    except BAD_BYTES as error:
        raise CorruptFileError(f"{path}: not a {what}: {error!r}") from error


def _records(data: bytes, path: str) -> tuple[Any, Iterator[Any]]:
    """The schema of the records of an Avro file, and these."""
    container = read_container(data, new_decoder, _decompressor, path)
    return container.schema, records_of(container, Source(container.records, new_decoder))


# Types of values of the fields of manifests and of their lists, as they are read.
_IN_MEMORY: dict[type[IcebergType], type] = {
    BinaryType: bytes,
    BooleanType: bool,
    IntegerType: int,
    LongType: int,
    ListType: list,
    MapType: dict,
    StringType: str,
    StructType: tuple,
}
_LISTED = MANIFEST_LIST_FILE_SCHEMAS[DEFAULT_READ_VERSION].fields
_ENTRY = MANIFEST_ENTRY_SCHEMAS[DEFAULT_READ_VERSION].fields
_FILE = DATA_FILE_TYPE[DEFAULT_READ_VERSION].fields


class _Fields:
    """Takes the fields of the specification from records of a file, whose own fields may differ."""

    def __init__(self, fields: Sequence[NestedField], schema: Any) -> None:
        """``schema``: of the records, in Avro."""
        own = fields_by_id(schema)
        self._places = {number: i for i, (number, _) in enumerate(own)}
        self._schemas = dict(own)
        self._fields = [
            (self._places.get(item.field_id), _IN_MEMORY[type(item.field_type)], item)
            for item in fields
        ]

    def schema(self, number: int) -> Any:
        """Of the values of a field."""
        return without_null(self._schemas.get(number, "null"))

    def of(self, record: Sequence[Any], number: int) -> Any:
        """The value of a field that records have."""
        return record[self._places[number]]

    def __call__(self, record: Sequence[Any]) -> list[Any]:
        """The values of a record.

        Raises:
            ValueError: one is missing, or of another type.
        """
        found = []
        for place, kind, item in self._fields:
            value = None if place is None else record[place]
            if value is None:
                value = item.initial_default
                if value is None and item.required:
                    raise ValueError(f"{item.name} is missing")
            elif type(value) is not kind or (kind is dict and not _is_map(item, value)):
                raise ValueError(f"{item.name} is {value!r}, expected {item.field_type}")
            found.append(value)
        return found


def _is_map(item: NestedField, value: Any) -> bool:
    kind = _IN_MEMORY[type(cast(MapType, item.field_type).value_type)]
    return all(type(k) is int and type(v) is kind for k, v in value.items())


def _listed(data: bytes, path: str, specs: Mapping[int, int]) -> Iterator[ManifestFile]:
    """What a manifest list says of manifests.

    Args:
        specs: how many fields each partition spec has.
    """
    schema, records = _records(data, path)
    fields = _Fields(_LISTED, schema)
    partitions = fields.schema(507)
    summary = None
    if isinstance(partitions, dict):
        summary = _Fields(PARTITION_FIELD_SUMMARY_TYPE.fields, without_null(partitions["items"]))
    for record in records:
        made = ManifestFile(*fields(record))
        made[3] = ManifestContent(made.content)
        if made.partition_spec_id not in specs:
            raise ValueError(f"partition spec {made.partition_spec_id}, which the table has not")
        for i in (1, *range(7, 13)):
            if made[i] is not None and made[i] < 0:
                raise ValueError(f"{_LISTED[i].name} is {made[i]}")
        if made.partitions is not None and summary is not None:
            if len(made.partitions) != specs[made.partition_spec_id]:
                raise ValueError(f"{len(made.partitions)} partition fields: {made.manifest_path}")
            made[13] = [PartitionFieldSummary(*summary(item)) for item in made.partitions]
        yield made


def _entries(data: bytes, manifest: ManifestFile, spec: PartitionSpec) -> Iterator[ManifestEntry]:
    """The files that a manifest lists, with what they inherit from the manifest."""
    schema, records = _records(data, manifest.manifest_path)
    fields = _Fields(_ENTRY, schema)
    described = _Fields(_FILE, fields.schema(2))
    partition = _Fields((), described.schema(102))
    for record in records:
        made = ManifestEntry(*fields(record))
        made.status = ManifestEntryStatus(made.status)
        file = IceDataFile(*described(fields.of(record, 2)))
        file[0] = DataFileContent(file.content)
        file[2] = FileFormat(file.file_format)
        values = described.of(fields.of(record, 2), 102)
        file[3] = Record(*(partition.of(values, item.field_id) for item in spec.fields))
        if file.record_count < 0 or file.file_size_in_bytes < 0:
            raise ValueError(f"{file.record_count} rows, {file.file_size_in_bytes} bytes")
        file.spec_id = manifest.partition_spec_id
        made.data_file = file
        if made.snapshot_id is None and manifest.added_snapshot_id is not None:
            made.snapshot_id = manifest.added_snapshot_id
        # Files that a commit adds have its number, and those of version 1 of the format none.
        if manifest.sequence_number == 0 or made.status == ManifestEntryStatus.ADDED:
            if made.sequence_number is None:
                made.sequence_number = manifest.sequence_number
            if made.file_sequence_number is None:
                made.file_sequence_number = manifest.sequence_number
        yield made


def _total(added: int | None, existing: int | None) -> int:
    """Of both; -1 where the manifest list, of version 1 of the format, does not say it."""
    return -1 if added is None or existing is None else added + existing


def check_name_mapping(mapping: str) -> None:
    """Refuses what would not be understood as a mapping of names when the table is read."""
    try:
        parse_mapping_from_json(mapping)
    except ValueError as error:
        first = str(error).splitlines()[0]
        raise InvalidArgumentError(
            f"properties: {NAME_MAPPING}: expected a name mapping of Iceberg in JSON, "
            f"got {mapping!r}: {first}"
        ) from error


def _mapped_names(mapping: str | None) -> dict[tuple[str, ...], int]:
    found: dict[tuple[str, ...], int] = {}

    def visit(fields: Any, above: tuple[str, ...]) -> None:
        for item in fields:
            for name in item.get("names", ()):
                if item.get("field-id") is not None:
                    found[(*above, name)] = item["field-id"]
                visit(item.get("fields", ()), (*above, name))

    try:
        visit(json.loads(mapping or "[]"), ())
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFileError(
            f"the property {NAME_MAPPING} of the table is no name mapping: {mapping!r}; "
            "alter().set_properties() replaces it"
        ) from error
    return found


def _plain_snapshot(item: IceSnapshot) -> Snapshot:
    summary = item.summary
    return Snapshot(
        id=item.snapshot_id,
        parent=item.parent_snapshot_id,
        sequence=item.sequence_number or 0,
        timestamp_ms=item.timestamp_ms,
        operation="" if summary is None else str(summary.operation.value),
        summary={} if summary is None else dict(summary.additional_properties),
        schema_id=item.schema_id,
        manifest_list=item.manifest_list,
    )


def _plain_file(item: IceDataFile) -> DataFile:
    kind = item.file_format
    return DataFile(
        path=item.file_path,
        format=str(kind.value if isinstance(kind, FileFormat) else kind).upper(),
        rows=item.record_count,
        bytes=item.file_size_in_bytes,
        content=_CONTENTS[item.content],
        spec_id=item.spec_id,
        partition=tuple(item.partition[i] for i in range(len(item.partition))),
        metrics=Metrics(
            values=item.value_counts or {},
            nulls=item.null_value_counts or {},
            nans=item.nan_value_counts or {},
            lower=item.lower_bounds or {},
            upper=item.upper_bounds or {},
        ),
        sort_order_id=item.sort_order_id,
    )


def _ice_file(item: DataFile) -> IceDataFile:
    made = IceDataFile.from_args(
        content=_CONTENT_OF[item.content],
        file_path=item.path,
        file_format=FileFormat(item.format),
        partition=Record(*item.partition),
        record_count=item.rows,
        file_size_in_bytes=item.bytes,
        column_sizes=dict(item.metrics.column_bytes),
        value_counts=dict(item.metrics.values),
        null_value_counts=dict(item.metrics.nulls),
        nan_value_counts=dict(item.metrics.nans),
        lower_bounds=dict(item.metrics.lower),
        upper_bounds=dict(item.metrics.upper),
        key_metadata=None,
        split_offsets=None,
        equality_ids=None,
        sort_order_id=item.sort_order_id,
    )
    made.spec_id = item.spec_id
    return made


# ------------------------------------------------------------------ values


def bound_bytes(kind: pa.DataType, value: Any) -> bytes:
    """A value as Iceberg stores bounds.

    Args:
        value: a Python value as ``internal_value`` gives it.
    """
    return to_bytes(cast(PrimitiveType, _primitive(kind)), value)


def bound_value(kind: pa.DataType, stored: bytes) -> pa.Scalar:
    """The bound that :func:`bound_bytes` gave, also where the column was narrower then."""
    return constant(kind, from_bytes(cast(PrimitiveType, _primitive(kind)), stored))


# ------------------------------------------------------------------ pruning

_COMPARISONS: dict[str, Callable[..., BooleanExpression]] = {
    "==": EqualTo,
    "!=": NotEqualTo,
    "<": LessThan,
    "<=": LessThanOrEqual,
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
}


class Pruner:
    """Iceberg's inclusive evaluation: what it leaves out has no row that passes.

    Attributes:
        exact: the tests say just what the conjuncts say, so that :meth:`whole` may be asked.
        expression: all of them, as the library has it; it may say less than they do.
    """

    def __init__(
        self, metadata: Metadata, conjuncts: Sequence[nodes.Node], schema_id: int | None
    ) -> None:
        self._metadata = metadata
        self._schema = metadata._ice_schema(schema_id)
        self._arrow = metadata.schema(schema_id)
        expression: BooleanExpression = AlwaysTrue()
        self.exact = True
        self._tested: set[int] = set()
        self._parts = [self._expression(node) for node in conjuncts]
        for part in self._parts:
            expression = And(expression, part)
        self.expression = expression
        self._by_spec: dict[int, Test] = {}
        self._by_manifest: dict[int, Callable[[ManifestFile], bool]] = {}

    def manifest(self, manifest: Manifest) -> bool:
        """Whether a manifest may list files with such rows."""
        evaluator = self._by_manifest.get(manifest.spec_id)
        if evaluator is None:
            spec = self._metadata._ice_spec(manifest.spec_id)
            evaluator = self._by_manifest[manifest.spec_id] = ice_visitors.manifest_evaluator(
                spec, self._schema, self._projected(spec)
            )
        with _decoding(manifest.path, "manifest with bounds of partitions"):
            return bool(evaluator(manifest.raw))

    @cached_property
    def metrics_test(self) -> Test:
        """What the statistics of a file are tested for."""
        bound = ice_visitors.bind(self._schema, self.expression, True)
        return _test(bound, lambda ref: ref.field.field_id)

    def partition_test(self, spec_id: int) -> Test:
        """What the partition values of a file are tested for."""
        known = self._by_spec.get(spec_id)
        if known is None:
            spec = self._metadata._ice_spec(spec_id)
            fields = Schema(*spec.partition_type(self._schema).fields)
            bound = ice_visitors.bind(fields, self._projected(spec), True)
            places = {item.field_id: i for i, item in enumerate(fields.fields)}
            known = self._by_spec[spec_id] = _test(bound, lambda ref: places[ref.field.field_id])
        return known

    def whole(self, entry: Entry) -> bool:
        """Whether all rows of a file pass, as its statistics prove.

        The library takes a column whose nulls were not counted for one without.
        """
        counted = entry.file.metrics.nulls
        if not self.exact or any(number not in counted for number in self._tested):
            return False
        strict = ice_visitors._StrictMetricsEvaluator(self._schema, self.expression)
        return bool(strict.eval(_ice_file(entry.file)))

    def _projected(self, spec: PartitionSpec) -> BooleanExpression:
        project = ice_visitors.inclusive_projection(self._schema, spec)
        found: BooleanExpression = AlwaysTrue()
        for part in self._parts:
            # Days and times next to the first and the last that Python has rule nothing out.
            with contextlib.suppress(OverflowError):
                found = And(found, project(part))
        return found

    def _expression(self, node: nodes.Node) -> BooleanExpression:
        match node:
            case nodes.And(args):
                return _folded(And, [self._expression(arg) for arg in args])
            case nodes.Or(args):
                return _folded(Or, [self._expression(arg) for arg in args])
            case nodes.Compare() | nodes.In() | nodes.IsNull() | nodes.IsValid():
                return self._leaf(node)
            case nodes.StartsWith(_, prefix) if isinstance(prefix, str):
                return self._leaf(node)
        self.exact = False
        return AlwaysTrue()

    def _leaf(self, node: Any) -> BooleanExpression:
        """One test; true where the library cannot bind it to just this column."""
        name = ".".join(node.column.path)
        if pt.is_floating(node.column.type):
            self.exact = False  # of NaN the statistics of some writers say nothing
        try:
            made = self._unbound(node, name)
            found = self._schema.find_field(name)
            if found.field_id == field_id_at(self._arrow, node.column.path):
                ice_visitors.bind(self._schema, made, True)
                self._tested.add(found.field_id)
                return made
        except (ValueError, TypeError, KeyError, AssertionError, OverflowError, NimbleError):
            pass
        self.exact = False
        return AlwaysTrue()

    def _unbound(self, node: Any, name: str) -> BooleanExpression:
        match node:
            case nodes.IsNull():
                return IsNull(name)
            case nodes.IsValid():
                return NotNull(name)
            case nodes.StartsWith(_, prefix):
                return StartsWith(name, prefix)
            case nodes.In(column, values):
                nan = any(is_nan(value) for value in values)
                rest = [_literal(column.type, v) for v in values if not is_nan(v)]
                return Or(In(name, rest), IsNaN(name)) if nan else In(name, rest)
            case nodes.Compare(column, op, value, nan_greatest):
                if is_nan(value):
                    return IsNaN(name) if op == "==" else AlwaysTrue()
                made = _COMPARISONS[op](name, _literal(column.type, value))
                if op == "!=":  # of a null it is true in Iceberg, and null in our filters
                    return And(made, NotNull(name))
                above = nan_greatest and op in (">", ">=") and pt.is_floating(column.type)
                return Or(made, IsNaN(name)) if above else made
        return AlwaysTrue()


_UNARY: dict[type[BooleanExpression], Op] = {
    BoundIsNull: "is null",
    BoundNotNull: "not null",
    BoundIsNaN: "is nan",
}
_WITH_VALUE: dict[type[BooleanExpression], Op] = {
    BoundEqualTo: "==",
    BoundNotEqualTo: "!=",
    BoundLessThan: "<",
    BoundLessThanOrEqual: "<=",
    BoundGreaterThan: ">",
    BoundGreaterThanOrEqual: ">=",
    BoundStartsWith: "starts with",
}


def _test(bound: BooleanExpression, number: Callable[[Any], int]) -> Test:
    """A bound expression of the library as a test; what it may say besides is true."""
    if isinstance(bound, And | Or):
        left, right = _test(bound.left, number), _test(bound.right, number)
        return Both(left, right, isinstance(bound, Or))
    if isinstance(bound, AlwaysFalse):
        return Always(False)
    if isinstance(bound, BoundPredicate):
        ref = bound.term.ref()
        kind = _arrow_type(ref.field.field_type)
        if type(bound) in _UNARY:
            return Leaf(_UNARY[type(bound)], number(ref), kind)
        if isinstance(bound, BoundIn):
            return Leaf("in", number(ref), kind, tuple(bound.value_set))
        if isinstance(bound, BoundLiteralPredicate) and type(bound) in _WITH_VALUE:
            return Leaf(_WITH_VALUE[type(bound)], number(ref), kind, (bound.literal.value,))
    return Always(True)


def _folded(kind: Callable[..., BooleanExpression], args: list[Any]) -> BooleanExpression:
    found = args[0]
    for arg in args[1:]:
        found = kind(found, arg)
    return cast(BooleanExpression, found)


def _literal(kind: pa.DataType, scalar: pa.Scalar) -> Any:
    """The value of a scalar as the library takes it: times are numbers."""
    return internal_value(kind, scalar)


# ------------------------------------------------------------------ commits


class _Records:
    """Encodes records of one Avro schema as the library does, whose set-up for a file is dear."""

    def __init__(self, name: str, file_schema: Schema, record_schema: Schema) -> None:
        self._writer = resolve_writer(record_schema=record_schema, file_schema=file_schema)
        self.schema = json.dumps(AvroSchemaConversion().iceberg_to_avro(file_schema, name))

    def encode(self, record: Any) -> bytes:
        octets = io.BytesIO()
        self._writer.write(BinaryEncoder(octets), record)
        return octets.getvalue()


class _ManifestForm:
    """How manifests of one schema and partition spec are written."""

    def __init__(self, schema: Schema, spec: PartitionSpec) -> None:
        partition = spec.partition_type(schema)
        written, read = (
            manifest_entry_schema_with_data_file(
                version, data_file_with_partition(partition, version)
            )
            for version in (2, DEFAULT_READ_VERSION)
        )
        self.records = _Records("manifest_entry", written, read)
        self.header = {
            "schema": schema.model_dump_json(),
            "partition-spec": json.dumps([item.model_dump(mode="json") for item in spec.fields]),
            "partition-spec-id": str(spec.spec_id),
            "format-version": "2",
        }


_forms: Recent[_ManifestForm] = Recent(_KEPT_METADATA)
_list_records = _Records(
    "manifest_file",
    MANIFEST_LIST_FILE_SCHEMAS[2],
    MANIFEST_LIST_FILE_SCHEMAS[DEFAULT_READ_VERSION],
)


def _write(output: OutputFile, octets: bytes) -> None:
    with output.create(overwrite=True) as sink:
        sink.write(octets)


class SwapLost(Exception):
    """Another commit was first."""


class SwapInDoubt(SwapLost):
    """It may have taken effect all the same: what it names must stay."""


@dataclass
class SnapshotCommit:
    """A new snapshot on its way into a table: files are written once, attempts repeated.

    Attributes:
        removed: paths of files, with rows or deletes, that are no longer part of the table.
        forget: manifests all of whose files are removed are left out, instead of being kept for
            this snapshot as a list of what was removed.
        summary: what is said of it besides Iceberg's own figures.
        rebuilt: cubes of files that stay, which no blob has any more.
        doubtful: a server may still do one of the attempts: no file that they name is removed.
    """

    operation: str
    branch: str = MAIN
    added: list[DataFile] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    summary: dict[str, str] = field(default_factory=dict)

    forget: bool = False
    rebuilt: Blocks = field(default_factory=lambda: Blocks.of_files(()))

    def __post_init__(self) -> None:
        self.id = uuid.uuid4()
        self.snapshot = int.from_bytes(self.id.bytes[:8], "big") >> 1
        self._manifests = 0
        self._attempts = 0
        self._kept: list[str] = []  # metadata files of all attempts
        self._passing: list[str] = []  # those of the last one alone
        self._written: dict[int, list[Manifest]] = {}
        self._blob = ""
        self.doubtful = False

    def attempt(self, metadata: Metadata) -> Metadata:
        """Tries to make this the newest snapshot after that of ``metadata``.

        Raises:
            SwapInDoubt: it is not known, and may take effect later; ``doubtful`` is set.
            SwapLost: another commit was first.
            FilesGone: files that it removes are no longer there. Nothing is left of the attempt
                but what the next one uses again.
        """
        self._passing = []
        self._sync_names()
        try:
            return self._attempt(metadata)
        except SwapInDoubt:
            self.doubtful = True
            self._kept += self._passing
            raise
        except (SwapLost, FilesGone):
            self._forget(metadata.ice.io, self._passing)
            raise

    def _sync_names(self) -> None:
        """Puts the names of new Parquet files on the disk; those of nimble files are there."""
        paths = [local_path(file.path) for file in self.added if file.format == "PARQUET"]
        for folder in {os.path.dirname(path) for path in paths if path is not None}:
            with contextlib.suppress(FileNotFoundError):  # the table was dropped, as the swap says
                sync_path(folder)

    def _attempt(self, metadata: Metadata) -> Metadata:
        ice = metadata.ice
        parent = metadata.head(self.branch)
        manifests = self._added_manifests(metadata) + self._existing_manifests(metadata, parent)
        self._attempts += 1
        name = f"snap-{self.snapshot}-{self._attempts}-{self.id}.avro"
        path = f"{metadata.location}/metadata/{name}"
        self._passing.append(path)
        sequence = ice.metadata.last_sequence_number + 1
        numbered = [self._numbered(item, sequence) for item in manifests]
        header = {
            "snapshot-id": str(self.snapshot),
            "parent-snapshot-id": "null" if parent is None else str(parent.id),
            "sequence-number": str(sequence),
            "format-version": "2",
        }
        records = [self._list_record(item) for item in numbered]
        _write(ice.io.new_output(path), container(_list_records.schema, header, records))
        times = [item.timestamp_ms for item in ice.metadata.snapshots]
        last = max([ice.metadata.last_updated_ms, *times])
        snapshot = IceSnapshot(
            snapshot_id=self.snapshot,
            parent_snapshot_id=None if parent is None else parent.id,
            sequence_number=sequence,
            # Later than all there is, so that a time means one snapshot.
            timestamp_ms=max(int(time.time() * 1000), last + 1),
            manifest_list=path,
            summary=Summary(
                Operation(self.operation),
                **self._summary(metadata, parent),
                **self._cube_blobs(metadata, parent),
            ),
            schema_id=ice.metadata.current_schema_id,
        )
        kind = metadata.references.get(self.branch)
        requirements = (
            AssertTableUUID(uuid=ice.metadata.table_uuid),
            AssertRefSnapshotId(
                ref=self.branch, snapshot_id=None if kind is None else kind.snapshot
            ),
        )
        updates = (
            AddSnapshotUpdate(snapshot=snapshot),
            _reference_at(metadata, self.branch, self.snapshot, SnapshotRefType.BRANCH),
        )
        try:
            done = swap(metadata, requirements, updates)
        except (SwapLost, NoSuchTable):
            raise
        except BaseException:
            # A timeout or Ctrl-C: a server may have the request, and do it after we have gone.
            if not isinstance(ice.catalog, _SqliteCatalog):
                self.doubtful = True
            raise
        _lists.put(path, numbered)
        return done

    def _numbered(self, manifest: Manifest, sequence: int) -> Manifest:
        """A manifest of this commit gets its sequence number in the list; others have theirs."""
        raw: ManifestFile = manifest.raw
        if UNASSIGNED_SEQ not in (raw.sequence_number, raw.min_sequence_number):
            return manifest
        assert raw.added_snapshot_id == self.snapshot
        made = ManifestFile(*(raw[i] for i in range(len(raw))))
        made.sequence_number = sequence
        if made.min_sequence_number == UNASSIGNED_SEQ:
            made.min_sequence_number = sequence
        return _plain_manifest(made)

    def _list_record(self, manifest: Manifest) -> bytes:
        """What the list says of a manifest; of those of other commits it stays the same."""
        if manifest.raw.added_snapshot_id == self.snapshot:
            return _list_records.encode(manifest.raw)
        known = _encoded.get(manifest.path)
        if known is None:
            known = _list_records.encode(manifest.raw)
            _encoded.put(manifest.path, known)
        return known

    def has_landed(self, base: Metadata, newest: Metadata) -> bool:
        """Whether an attempt for ``base`` took effect although it was reported as failed.

        If not, and another commit moved the branch, none will: each requires the base's snapshot.
        Then they are no longer ``doubtful``.
        """
        if newest.snapshot(self.snapshot) is not None:
            return True
        before, now = base.head(self.branch), newest.head(self.branch)
        if (before and before.id) != (now and now.id):
            self.doubtful = False
        return False

    def abandon(self, metadata: Metadata) -> None:
        """Removes what the attempts have written, unless they are ``doubtful``."""
        if not self.doubtful:
            self._forget(metadata.ice.io, [*self._passing, *self._kept])

    @staticmethod
    def _forget(io: FileIO, paths: list[str]) -> None:
        for path in paths:
            with contextlib.suppress(OSError):
                io.delete(path)
        paths.clear()

    def _new_manifest(self, metadata: Metadata, keep: list[str]) -> OutputFile:
        name = f"{self.id}-m{self._manifests}.avro"
        self._manifests += 1
        path = f"{metadata.location}/metadata/{name}"
        keep.append(path)
        return metadata.ice.io.new_output(path)

    def _added_manifests(self, metadata: Metadata) -> list[Manifest]:
        """One manifest of new files for each spec and kind; those written before are kept."""
        known = len(self._written.get(-1, ()))
        done = self._written.setdefault(-1, [])
        if known:
            return done
        groups: dict[tuple[bool, int], list[DataFile]] = {}
        for file in self.added:
            groups.setdefault((file.content != "data", file.spec_id), []).append(file)
        for (deletes, spec_id), files in sorted(groups.items()):
            entries = [
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED,
                    snapshot_id=self.snapshot,
                    sequence_number=None,
                    file_sequence_number=None,
                    data_file=_ice_file(file),
                )
                for file in files
            ]
            done.append(self._manifest(metadata, deletes, spec_id, entries, self._kept))
        return done

    def added_again(self, metadata: Metadata) -> None:
        """The new files are others now: their manifests are written anew."""
        if not self.doubtful:
            self._forget(metadata.ice.io, self._kept)
        self._written.clear()
        self._blob = ""

    def _manifest(
        self,
        metadata: Metadata,
        deletes: bool,
        spec_id: int,
        entries: Iterable[ManifestEntry],
        keep: list[str],
    ) -> Manifest:
        schema, spec = metadata._ice_schema(None), metadata._ice_spec(spec_id)
        form = _form(metadata, spec_id)
        listed = list(entries)
        octets = container(
            form.records.schema,
            {**form.header, "content": "deletes" if deletes else "data"},
            [form.records.encode(entry) for entry in listed],
        )
        output = self._new_manifest(metadata, keep)
        _write(output, octets)
        files = dict.fromkeys(ManifestEntryStatus, 0)
        rows = dict.fromkeys(ManifestEntryStatus, 0)
        for entry in listed:
            files[entry.status] += 1
            rows[entry.status] += entry.data_file.record_count
        sequences = [
            entry.sequence_number
            for entry in listed
            if entry.status != ManifestEntryStatus.DELETED and entry.sequence_number is not None
        ]
        made = ManifestFile.from_args(
            manifest_path=output.location,
            manifest_length=len(octets),
            partition_spec_id=spec_id,
            content=ManifestContent.DELETES if deletes else ManifestContent.DATA,
            sequence_number=UNASSIGNED_SEQ,
            min_sequence_number=min(sequences, default=UNASSIGNED_SEQ),
            added_snapshot_id=self.snapshot,
            added_files_count=files[ManifestEntryStatus.ADDED],
            existing_files_count=files[ManifestEntryStatus.EXISTING],
            deleted_files_count=files[ManifestEntryStatus.DELETED],
            added_rows_count=rows[ManifestEntryStatus.ADDED],
            existing_rows_count=rows[ManifestEntryStatus.EXISTING],
            deleted_rows_count=rows[ManifestEntryStatus.DELETED],
            partitions=construct_partition_summaries(
                spec, schema, [entry.data_file.partition for entry in listed]
            ),
            key_metadata=None,
        )
        return _plain_manifest(made)

    def _existing_manifests(self, metadata: Metadata, parent: Snapshot | None) -> list[Manifest]:
        """Those of the snapshot before, without the files that are removed."""
        if parent is None:
            return []
        left = set(self.removed)
        self._removed_files: list[DataFile] = []
        kept: list[Manifest] = []
        # Of short manifests, by kind and spec: what they say now.
        short: dict[tuple[bool, int], list[tuple[Manifest, bool, list[ManifestEntry]]]] = {}
        for manifest in metadata.manifests(parent):
            if not manifest.files:
                continue
            merge = self.operation == "replace" and manifest.files <= _SHORT_MANIFEST
            entries = metadata.entries(manifest) if left or merge else []
            gone = {entry.file.path for entry in entries} & left
            if not gone and not merge:
                kept.append(manifest)
                continue
            left -= gone
            if self.forget and len(gone) == len(entries):
                self._removed_files += [entry.file for entry in entries]
                continue
            self._removed_files += [e.file for e in entries if e.file.path in gone]
            changed = [self._existing(entry.raw, entry.file.path in gone) for entry in entries]
            kind = manifest.deletes, manifest.spec_id
            if len(entries) - len(gone) <= _SHORT_MANIFEST:
                short.setdefault(kind, []).append((manifest, bool(gone), changed))
            else:
                kept.append(self._manifest(metadata, *kind, changed, self._passing))
        if left:
            raise FilesGone(sorted(left))
        for kind, parts in short.items():
            if len(parts) == 1 and not parts[0][1]:
                kept.append(parts[0][0])
                continue
            together = [entry for _, _, changed in parts for entry in changed]
            kept.append(self._manifest(metadata, *kind, together, self._passing))
        return kept

    def _existing(self, entry: ManifestEntry, removed: bool) -> ManifestEntry:
        return ManifestEntry.from_args(
            status=ManifestEntryStatus.DELETED if removed else ManifestEntryStatus.EXISTING,
            snapshot_id=self.snapshot if removed else entry.snapshot_id,
            sequence_number=entry.sequence_number,
            file_sequence_number=entry.file_sequence_number,
            data_file=entry.data_file,
        )

    def _cube_blobs(self, metadata: Metadata, parent: Snapshot | None) -> dict[str, str]:
        """Names the blobs with the cubes of all files; that of the new ones is written once."""
        names = blob_names(metadata.ancestors(parent))
        new = Blocks.merged([self.rebuilt, new_blocks(self.added)])
        if len(new) and not self._blob:
            self._blob = f"otree-{self.id}-{self._attempts}-new.puffin"
            self._write_blob(metadata, self._blob, new, self._kept)
        if len(names) >= MOST_BLOBS:
            found = metadata.cubes(parent)
            live = {
                entry.file.path
                for manifest in (() if parent is None else metadata.manifests(parent))
                for entry in metadata.entries(manifest)
            }
            merged = Blocks.merged([found], live - self.removed)
            names = [f"otree-{self.id}-{self._attempts}.puffin"]
            self._write_blob(metadata, names[0], merged, self._passing)
        names += [self._blob] if self._blob else []
        return {BLOBS: ",".join(names)} if names else {}

    @staticmethod
    def _write_blob(metadata: Metadata, name: str, blocks: Blocks, keep: list[str]) -> None:
        path = metadata.blob_path(name)
        keep.append(path)
        _write(metadata.ice.io.new_output(path), blocks.to_bytes())

    def _summary(self, metadata: Metadata, parent: Snapshot | None) -> dict[str, str]:
        added, removed = self.added, getattr(self, "_removed_files", [])
        before = {} if parent is None else parent.summary
        counts = _figures(added, "added") | _figures(removed, "removed")
        made = {name: str(count) for name, count in counts.items() if count}
        partitions = {(file.spec_id, file.partition) for file in (*added, *removed)}
        made["changed-partition-count"] = str(len(partitions))
        for name, (more, less) in _TOTALS.items():
            if parent is None or name in before:
                total = int(before.get(name, 0)) + counts[more] - counts[less]
                made[name] = str(max(total, 0))
        if PLAN_INDEX in before:
            made[PLAN_INDEX] = before[PLAN_INDEX]
        made.update({k: v for k, v in before.items() if k.startswith(BATCH_PREFIX)})
        made.update(self.summary)
        return made


@dataclass
class ManifestsCommit(SnapshotCommit):
    """A snapshot with manifests that were written apart, of files that are there or are added.

    Attributes:
        replaced: paths of manifests whose files are in the new ones.
        made: the new ones, see :meth:`write`.
    """

    replaced: set[str] = field(default_factory=set)
    made: list[Manifest] = field(default_factory=list)

    def write(
        self,
        metadata: Metadata,
        spec_id: int,
        entries: Sequence[bytes],
        *,
        partitions: Sequence[tuple[Any, ...]],
        rows: int,
        sequence: int | None,
    ) -> Manifest:
        """Writes one manifest of data files.

        Args:
            entries: encoded by :func:`entry_schema`, none of them removed.
            partitions: those of the files, each once.
            rows: of all files.
            sequence: the least of the files; ``None``: this commit adds them.
        """
        schema, spec = metadata._ice_schema(None), metadata._ice_spec(spec_id)
        form = _form(metadata, spec_id)
        octets = container(form.records.schema, {**form.header, "content": "data"}, entries)
        output = self._new_manifest(metadata, self._kept)
        _write(output, octets)
        added = sequence is None
        listed = ManifestFile.from_args(
            manifest_path=output.location,
            manifest_length=len(octets),
            partition_spec_id=spec_id,
            content=ManifestContent.DATA,
            sequence_number=UNASSIGNED_SEQ,
            min_sequence_number=UNASSIGNED_SEQ if sequence is None else sequence,
            added_snapshot_id=self.snapshot,
            added_files_count=len(entries) if added else 0,
            existing_files_count=0 if added else len(entries),
            deleted_files_count=0,
            added_rows_count=rows if added else 0,
            existing_rows_count=0 if added else rows,
            deleted_rows_count=0,
            partitions=construct_partition_summaries(
                spec, schema, [Record(*values) for values in partitions]
            ),
            key_metadata=None,
        )
        self.made.append(_plain_manifest(listed))
        return self.made[-1]

    def _added_manifests(self, metadata: Metadata) -> list[Manifest]:
        return self.made

    def _existing_manifests(self, metadata: Metadata, parent: Snapshot | None) -> list[Manifest]:
        self._removed_files = []
        there = [] if parent is None else metadata.manifests(parent)
        gone = self.replaced - {manifest.path for manifest in there}
        if gone:
            raise FilesGone(sorted(gone))
        return [item for item in there if item.files and item.path not in self.replaced]


def entry_schema(metadata: Metadata, spec_id: int) -> str:
    """The Avro schema of the entries of new manifests."""
    return str(_form(metadata, spec_id).records.schema)


def encoded_entry(metadata: Metadata, spec_id: int, entry: Entry) -> bytes:
    """A live file, as the library has read it, as an entry of a new manifest."""
    old = entry.raw
    made = ManifestEntry.from_args(
        status=ManifestEntryStatus.EXISTING,
        snapshot_id=old.snapshot_id,
        sequence_number=old.sequence_number,
        file_sequence_number=old.file_sequence_number,
        data_file=old.data_file,
    )
    return bytes(_form(metadata, spec_id).records.encode(made))


def _form(metadata: Metadata, spec_id: int) -> _ManifestForm:
    schema = metadata._ice_schema(None)
    key = f"{metadata.uuid}/{schema.schema_id}/{spec_id}"
    form = _forms.get(key)
    if form is None:
        form = _ManifestForm(schema, metadata._ice_spec(spec_id))
        _forms.put(key, form)
    return form


_TOTALS = {
    "total-records": ("added-records", "deleted-records"),
    "total-files-size": ("added-files-size", "removed-files-size"),
    "total-data-files": ("added-data-files", "deleted-data-files"),
    "total-delete-files": ("added-delete-files", "removed-delete-files"),
    "total-position-deletes": ("added-position-deletes", "removed-position-deletes"),
    "total-equality-deletes": ("added-equality-deletes", "removed-equality-deletes"),
}


def _figures(files: Sequence[DataFile], verb: str) -> dict[str, int]:
    data = [file for file in files if file.content == "data"]
    deletes = [file for file in files if file.content == "position deletes"]
    taken = "added" if verb == "added" else "deleted"
    return {
        f"{taken}-data-files": len(data),
        f"{taken}-records": sum(file.rows for file in data),
        f"{verb}-delete-files": len(files) - len(data),
        f"{verb}-position-delete-files": len(deletes),
        f"{verb}-position-deletes": sum(file.rows for file in deletes),
        f"{verb}-equality-deletes": 0,
        f"{verb}-files-size": sum(file.bytes for file in files),
    }


class FilesGone(Exception):
    """Files that a commit was to remove are no longer part of the table."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__(", ".join(paths))
        self.paths = paths


def who() -> str:
    """Who commits, for the history."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "unknown"


def swap(metadata: Metadata, requirements: Any, updates: Any) -> Metadata:
    """One compare-and-swap of a table's metadata.

    Raises:
        SwapLost: the metadata is no longer what the requirements say, or not what the updates fit.
        SwapInDoubt: the catalog does not know; the caller looks whether it took effect.
    """
    ice = metadata.ice
    try:
        done = ice.catalog.commit_table(ice, requirements, updates)
    except CommitFailedException:
        raise SwapLost from None
    except CommitStateUnknownException:
        raise SwapInDoubt from None
    except NoSuchTableError:
        raise NoSuchTable from None
    except (ValueError, ValidationError):
        # Updates are checked against the newest metadata: a snapshot may have expired since.
        newest = load_table(ice.catalog, metadata.name)
        if newest.metadata_file == metadata.metadata_file:
            raise
        raise SwapLost from None
    newer = Metadata(
        IceTable(
            identifier=ice.name(),
            metadata=done.metadata,
            metadata_location=done.metadata_location,
            io=ice.io,
            catalog=ice.catalog,
        )
    )
    wanted = newer.properties.get(_DELETE_METADATA, "false").lower() == "true"
    if wanted or isinstance(ice.catalog, _SqliteCatalog):
        for path in set(metadata.metadata_files()) - set(newer.metadata_files()):
            with contextlib.suppress(Exception):  # the commit took effect, whatever this does
                ice.io.delete(path)
    return newer


def set_reference(
    metadata: Metadata, name: str, snapshot: int, kind: str, expected: int | None
) -> Metadata:
    """Points a tag or branch to a snapshot; ``expected`` is where it points now."""
    return swap(
        metadata,
        (
            AssertTableUUID(uuid=metadata.ice.metadata.table_uuid),
            AssertRefSnapshotId(ref=name, snapshot_id=expected),
        ),
        (_reference_at(metadata, name, snapshot, SnapshotRefType(kind)),),
    )


def _reference_at(metadata: Metadata, name: str, snapshot: int, kind: str) -> SetSnapshotRefUpdate:
    """A tag or branch at another snapshot, with what it says of how long snapshots stay."""
    known = metadata.references.get(name)
    return SetSnapshotRefUpdate(
        ref_name=name,
        type=kind,
        snapshot_id=snapshot,
        min_snapshots_to_keep=None if known is None else known.least_snapshots,
        max_snapshot_age_ms=None if known is None else known.snapshot_age_ms,
        max_ref_age_ms=None if known is None else known.age_ms,
    )


def remove_reference(metadata: Metadata, name: str, expected: int) -> Metadata:
    return swap(
        metadata,
        (
            AssertTableUUID(uuid=metadata.ice.metadata.table_uuid),
            AssertRefSnapshotId(ref=name, snapshot_id=expected),
        ),
        (RemoveSnapshotRefUpdate(ref_name=name),),
    )


class _SameReferences:
    """A requirement that is checked here: no tag or branch came, went or moved."""

    def __init__(self, metadata: Metadata) -> None:
        self._refs = metadata.ice.metadata.refs

    def validate(self, base_metadata: Any) -> None:
        if base_metadata is None or base_metadata.refs != self._refs:
            raise CommitFailedException("tags or branches have changed")


def remove_snapshots(metadata: Metadata, numbers: Sequence[int]) -> Metadata:
    """Forgets snapshots that no reference names.

    Raises:
        SwapLost: a reference is not what it was: removing a snapshot removes those that name it.
    """
    ice = metadata.ice
    checks: list[Any] = [AssertTableUUID(uuid=ice.metadata.table_uuid)]
    if isinstance(ice.catalog, MetastoreCatalog):
        checks.append(_SameReferences(metadata))
    else:  # a server is told of each; of new ones there is no requirement
        for name, reference in metadata.references.items():
            checks.append(AssertRefSnapshotId(ref=name, snapshot_id=reference.snapshot))
    return swap(
        metadata,
        tuple(checks),
        (RemoveSnapshotsUpdate(snapshot_ids=list(numbers)),),
    )


class _SameProperties:
    """A requirement that is checked here: the properties are what they were."""

    def __init__(self, metadata: Metadata) -> None:
        self._properties = metadata.properties

    def validate(self, base_metadata: Any) -> None:
        if base_metadata is None or dict(base_metadata.properties) != self._properties:
            raise CommitFailedException("properties have changed")


class _Steps(IceTransaction):
    """The library's transaction; what it gathers is committed by :func:`swap`."""

    _updates: tuple[Any, ...]

    @property
    def updates(self) -> tuple[Any, ...]:
        """Of the table's metadata, in the order in which they were asked for."""
        return self._updates


class Evolution:
    """Changes of schema, partitioning and properties, committed together."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._transaction = _Steps(metadata.ice)
        self._changed = False

    @property
    def schema(self) -> pa.Schema:
        """The columns as they are after the changes so far."""
        return to_arrow(self._transaction.table_metadata.schema())

    def mapped_names(self) -> dict[tuple[str, ...], int]:
        """Field ids by path of names, of files that have no ids."""
        return _mapped_names(self._transaction.table_metadata.properties.get(NAME_MAPPING))

    def primary_key_ids(self) -> set[int]:
        return set(self._transaction.table_metadata.schema().identifier_field_ids)

    def cluster_ids(self) -> set[int]:
        order = self._transaction.table_metadata.sort_order()
        return {item.source_id for item in order.fields}

    def partition_ids(self) -> set[int]:
        specs = self._transaction.table_metadata.partition_specs
        return {item.source_id for spec in specs for item in spec.fields}

    def partition_fields(self) -> list[str]:
        """The transforms of the current spec that partition something."""
        found = [str(item.transform) for item in self._transaction.table_metadata.spec().fields]
        return [transform for transform in found if transform != "void"]

    @property
    def properties(self) -> dict[str, str]:
        """The properties as they are after the changes so far."""
        return dict(self._transaction.table_metadata.properties)

    @contextlib.contextmanager
    def _columns(self) -> Iterator[Any]:
        with self._transaction.update_schema() as update:
            yield update
        self._changed = True

    def add_column(
        self, path: tuple[str, ...], kind: pa.DataType, doc: str | None, default: Any
    ) -> None:
        wrapped = to_iceberg(pa.schema([pa.field(path[-1], kind)]))
        with self._columns() as update:
            update.add_column(path, wrapped.fields[0].field_type, doc=doc, default_value=default)

    def rename_column(self, path: tuple[str, ...], name: str) -> None:
        with self._columns() as update:
            update.rename_column(path, name)

    def drop_column(self, path: tuple[str, ...]) -> None:
        with self._columns() as update:
            update.delete_column(path)

    def widen(self, path: tuple[str, ...], kind: pa.DataType) -> None:
        with self._columns() as update:
            update.update_column(path, field_type=_primitive(kind))

    def move_first(self, path: tuple[str, ...]) -> None:
        with self._columns() as update:
            update.move_first(path)

    def move_after(self, path: tuple[str, ...], after: tuple[str, ...]) -> None:
        with self._columns() as update:
            update.move_after(path, after)

    def partition_by(self, fields: list[tuple[str, str, str]]) -> None:
        """(column, transform, name) of each field of the new spec."""
        self._change_spec(fields)
        self._changed = True

    def set_properties(self, properties: Mapping[str, str]) -> None:
        self._transaction.set_properties(dict(properties))
        self._changed = True

    def commit(self) -> Metadata:
        """Commits all changes in one step.

        Raises:
            SwapLost: columns, partitioning, order or properties were changed since. Snapshots may
                have come.
        """
        if not self._changed:
            return self._metadata
        ice = self._metadata.ice
        base = ice.metadata
        # All that a change was checked against, not only what it changes itself.
        checks: list[Any] = [
            AssertTableUUID(uuid=base.table_uuid),
            AssertCurrentSchemaId(current_schema_id=base.current_schema_id),
            AssertLastAssignedFieldId(last_assigned_field_id=base.last_column_id),
            AssertDefaultSpecId(default_spec_id=base.default_spec_id),
            AssertLastAssignedPartitionId(last_assigned_partition_id=base.last_partition_id),
            AssertDefaultSortOrderId(default_sort_order_id=base.default_sort_order_id),
        ]
        if isinstance(ice.catalog, MetastoreCatalog):
            checks.append(_SameProperties(self._metadata))
        else:  # of properties a server knows no requirement, so they are looked at just before
            newest = load_table(ice.catalog, self._metadata.name)
            if newest.properties != self._metadata.properties:
                raise SwapLost
        return swap(self._metadata, tuple(checks), self._transaction.updates)

    def _change_spec(self, fields: list[tuple[str, str, str]]) -> None:
        metadata = self._transaction.table_metadata
        schema, spec = metadata.schema(), metadata.spec()
        wanted = {
            (_field_id(schema, column), str(parse_transform(transform))): (column, transform, name)
            for column, transform, name in fields
        }
        with self._transaction.update_spec() as update:
            for item in spec.fields:
                if wanted.pop((item.source_id, str(item.transform)), None) is None:
                    update.remove_field(item.name)
            for column, transform, name in wanted.values():
                update.add_field(column, parse_transform(transform), name)
