"""Reads a table's metadata: schemas, partition specs, snapshots, manifests and entries."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast

import pyarrow as pa
import pyarrow.types as pt
from pyiceberg.avro.decoder import new_decoder
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import ValidationError
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    PARTITION_FIELD_SUMMARY_TYPE,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
)
from pyiceberg.manifest import DataFile as IceDataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.serializers import Compressor
from pyiceberg.table import StagedTable
from pyiceberg.table import Table as IceTable
from pyiceberg.table.name_mapping import parse_mapping_from_json
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot as IceSnapshot
from pyiceberg.table.sorting import (
    NullOrder,
    SortDirection,
)
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
)

from nimblepy.errors import CorruptFileError, InvalidArgumentError, UnsupportedVersionError
from nimblepy.io.lru_cache import LruCache
from nimblepy.io.remote_file import at_once, connections
from nimblepy.schema.columns import column_paths
from nimblepy.schema.field_ids import field_id_at
from nimblepy.schema.plain import plain_type
from nimblepy.schema.types import SortKey
from nimblepy.table.base.damage import BAD_BYTES
from nimblepy.table.base.made_of import MadeOf
from nimblepy.table.base.model import (
    COMMENT,
    MAIN,
    DataFile,
    Entry,
    Manifest,
    Metrics,
    PartitionField,
    Reference,
    Snapshot,
)
from nimblepy.table.base.moved import translation_of
from nimblepy.table.base.values import constant
from nimblepy.table.iceberg.avro import (
    Source,
    encoded_long,
    fields_by_id,
    read_container,
    records_of,
    schema_of,
    without_null,
)
from nimblepy.table.iceberg.local_io import is_here
from nimblepy.table.iceberg.manifest_forms import CONTENTS, RECORD_VERSION, ManifestForm
from nimblepy.table.iceberg.manifests import (
    ManifestFiles,
    RawEntry,
    ascending_ids,
    manifest_files,
    vector_of,
)
from nimblepy.table.iceberg.schemas import (
    COLUMN_TYPES,
    arrow_type,
    docs_of,
    primitive,
    to_arrow,
    type_details,
)
from nimblepy.table.iceberg.version3 import ROW_ID_VERSION
from nimblepy.table.otree.blocks import (
    Blocks,
    blob_names,
    read_blobs,
)

_EXISTING = ManifestEntryStatus.EXISTING.value


# The latest version of Iceberg's format that pyiceberg reads completely.
_COMPLETE_VERSION = 2


NAME_MAPPING = "schema.name-mapping.default"
# The property that stores the order of a primary key's columns. It gives the rank of each column's
# field id among the key's field ids, because names may change and catalogs may renumber fields.
PRIMARY_KEY_ORDER = "nimblepy.primary-key-order"
_PLACE = re.compile("[0-9]{1,9}")


# Number of retries of a lost commit, and the waits between them in seconds.
MOST_ATTEMPTS = 100


_FIRST_WAIT = 0.005


_LONGEST_WAIT = 0.2


# Number of tables' metadata, and of manifest lists, to keep in memory.
KEPT_METADATA = 16
# Number of entries of delete manifests to keep in memory.
_KEPT_ENTRIES = 4096


def to_places(ids: Sequence[int]) -> str:
    """Returns the order of field ids in the form of :data:`PRIMARY_KEY_ORDER`."""
    return ",".join(str(sorted(ids).index(number)) for number in ids)


def from_places(ids: Sequence[int], places: str) -> list[int] | None:
    """Returns ascending ``ids`` in the order of :func:`to_places`; ``None`` if it does not fit
    them.
    """
    positions = [int(place) for place in places.split(",") if _PLACE.fullmatch(place)]
    return [ids[i] for i in positions] if sorted(positions) == list(range(len(ids))) else None


class Metadata:
    """One version of a table's metadata. Immutable.

    Attributes:
        ice: The pyiceberg table.
        name: Name of the table, with its namespace.
        uuid: UUID of the table.
        metadata_file: Path of the metadata file.
        format_version: Version of Iceberg's format.
        schema_id: Id of the current schema.
        branch: The branch that is read and that the next commit writes to.
        checks, updates: Requirements and updates of the next commit, as pyiceberg objects.
        reads: Number of metadata files that were read through this object.
    """

    def __init__(
        self,
        ice: IceTable,
        *,
        branch: str = MAIN,
        base: Metadata | None = None,
        checks: Sequence[Any] = (),
        updates: Sequence[Any] = (),
    ) -> None:
        """Makes metadata from a catalog, or from applying ``updates`` to ``base``.

        Args:
            checks: pyiceberg requirements that must hold for the updates to be valid.
        """
        self.ice = ice
        self.name: tuple[str, ...] = tuple(ice.name())
        self.uuid = str(ice.metadata.table_uuid)
        self.metadata_file = str(ice.metadata_location)
        self.format_version = int(ice.metadata.format_version)
        self.schema_id = int(ice.metadata.current_schema_id)
        self.reads = 1
        self.branch = branch
        self._base = base
        self.checks = tuple(checks)
        self.updates = tuple(updates)

    def on(self, branch: str) -> Metadata:
        """Returns the same metadata, for reads and commits of a branch."""
        return self if branch == self.branch else Metadata(self.ice, branch=branch)

    @property
    def committed(self) -> Metadata:
        """The metadata in the catalog, without ``updates``."""
        return self if self._base is None else self._base

    @property
    def is_staged(self) -> bool:
        """Whether the table is not in the catalog yet: the next commit creates it."""
        return isinstance(self.ice, StagedTable)

    @property
    def location(self) -> str:
        return str(self.ice.metadata.location)

    @property
    def has_row_ids(self) -> bool:
        """Whether rows have ids, and deleted rows are stored in deletion vectors."""
        return self.format_version >= ROW_ID_VERSION

    @property
    def next_row_id(self) -> int:
        """The id of the next new row, in format version 3."""
        return int(getattr(self.ice.metadata, "next_row_id", None) or 0)

    @property
    def distant(self) -> bool:
        """Whether the table is in a store, where latency costs more than the bytes read."""
        return not is_here(self.location)

    @property
    def io_properties(self) -> dict[str, str]:
        """Properties of the I/O for the table's files, including credentials."""
        return {name: str(value) for name, value in self.ice.io.properties.items()}

    @property
    def properties(self) -> dict[str, str]:
        return dict(self.ice.metadata.properties)

    @property
    def comment(self) -> str | None:
        """The description of the table."""
        return self.properties.get(COMMENT)

    def schema(self, schema_id: int | None = None) -> pa.Schema:
        """Returns the Arrow schema; ``None`` is the current one."""
        schema, text = self.ice_schema(schema_id), self.ice.metadata.properties.get(COLUMN_TYPES)
        if text is None:
            return _arrow_schema(schema)
        detailed = _detailed_schemas(schema)
        arrow_schema = detailed.get(text)
        if arrow_schema is None:
            arrow_schema = detailed[text] = to_arrow(schema, type_details({COLUMN_TYPES: text}))
        return arrow_schema

    def columns_of(self, ids: Collection[int]) -> tuple[pa.Schema, dict[int, pa.Scalar]]:
        """Returns top-level columns with only the fields ``ids`` in them, and their default values.

        They are as the newest schema that has all of the fields defines them.

        Raises:
            CorruptFileError: no schema has all of the fields.
        """
        schemas = sorted(self.ice.metadata.schemas, key=lambda item: -item.schema_id)
        current = [item for item in schemas if item.schema_id == self.schema_id]
        for schema in (*current, *schemas):
            if all(schema.find_column_name(number) is not None for number in ids):
                selected = prune_columns(schema, set(ids), select_full_types=False)
                types = type_details(self.properties)
                return to_arrow(selected, types), self.defaults(schema.schema_id)
        raise CorruptFileError(
            f"{self.metadata_file}: an equality delete file compares the fields "
            f"{sorted(ids)}, but no schema of the table has them all"
        )

    def docs(self, schema_id: int | None = None) -> Mapping[int, str]:
        """Returns the documentation of fields, at any depth, by field id."""
        return _docs(self.ice_schema(schema_id))

    def ice_schema(self, schema_id: int | None) -> Schema:
        metadata = self.ice.metadata
        wanted_id = metadata.current_schema_id if schema_id is None else schema_id
        return next(schema for schema in metadata.schemas if schema.schema_id == wanted_id)

    def field_ids(self) -> dict[int, frozenset[int]]:
        """Returns the field ids of each schema, by the id of the schema."""
        schemas = self.ice.metadata.schemas
        return {int(schema.schema_id): frozenset(schema.field_ids) for schema in schemas}

    def widened_since(self, schema_id: int) -> list[str]:
        """Returns the columns and fields whose primitive type differs from an earlier schema."""
        before, now = self.ice_schema(schema_id), self.ice_schema(None)
        numbers = set(before.field_ids) & set(now.field_ids)
        return sorted(
            str(now.find_column_name(number))
            for number in numbers
            if now.find_type(number).is_primitive
            and now.find_type(number) != before.find_type(number)
        )

    def column_name(self, number: int, schema_id: int | None = None) -> str | None:
        """Returns the dotted name of a column of a schema, the current one by default."""
        return self.ice_schema(schema_id).find_column_name(number)

    def column_number(self, name: str, schema_id: int | None = None) -> int | None:
        """Returns the field id of a column by its dotted name; ``None`` if a schema does not have
        it.
        """
        try:
            return int(self.ice_schema(schema_id).find_field(name).field_id)
        except ValueError:
            return None

    @property
    def name_mapping(self) -> str | None:
        """The table property that maps names in files without field ids to columns."""
        return self.properties.get(NAME_MAPPING)

    def new_name_mapping(self) -> str:
        """Returns the mapping of the current names."""
        return self.ice_schema(None).name_mapping.model_dump_json()

    def mapped_names(self) -> dict[tuple[str, ...], int]:
        """Returns field ids by path of names, for files without field ids."""
        return mapped_names(self.name_mapping)

    def defaults(self, schema_id: int | None) -> dict[int, pa.Scalar]:
        """Returns the value of each field in files that predate the field, at any depth, by field
        id.
        """
        defaults = _defaults(self.ice_schema(schema_id).fields)
        for number, what in type_details(self.properties).items():
            if number in defaults and isinstance(what, str):
                unit = defaults[number].type.unit
                defaults[number] = defaults[number].cast(pa.timestamp(unit, what))
        return defaults

    def primary_key(self, schema_id: int | None = None) -> list[str]:
        """Returns the columns of the primary key, in order.

        Iceberg stores them as an unordered set.

        In tables of other engines, columns of the sort order come first, then field ids decide.
        """
        schema = self.ice_schema(schema_id)
        ids = sorted(schema.identifier_field_ids)
        ordered = from_places(ids, self.properties.get(PRIMARY_KEY_ORDER, ""))
        if ordered is None:
            clustered = [item.source_id for item in self.ice.metadata.sort_order().fields]
            first = [number for number in clustered if number in ids]
            ordered = list(dict.fromkeys(first + ids))
        names = (schema.find_column_name(number) for number in ordered)
        return [name for name in names if name is not None]

    def cluster_by(self, schema_id: int | None = None) -> list[SortKey]:
        """Returns the order of rows in each file, up to the first transformed sort key."""
        schema = self.ice_schema(schema_id)
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
        """Returns the fields of a partition spec; ``None`` is the current one."""
        spec = self.ice_spec(self.spec_id if spec_id is None else spec_id)
        return [
            PartitionField(
                source_id=item.source_id,
                field_id=item.field_id,
                name=item.name,
                transform=str(item.transform),
            )
            for item in spec.fields
        ]

    def leaf_types(self, schema_id: int | None = None) -> dict[int, pa.DataType]:
        """Returns the types of the columns that have statistics, members of structs included, by
        field id.
        """
        schema = self.schema(schema_id)
        types = {}
        for path in column_paths(schema):
            kind = schema.field(path[0]).type
            for name in path[1:]:
                if not pt.is_struct(kind):
                    break
                kind = kind.field(name).type
            else:
                if not pt.is_nested(kind):
                    types[field_id_at(schema, path)] = plain_type(kind)
        return types

    def partition_types(self) -> dict[int, list[tuple[int, pa.DataType]]]:
        """Returns (field id, type of its values) of the fields of each partition spec.

        Leaves out the specs of dropped columns.
        """
        types = {}
        for spec_id in self.ice.metadata.specs():
            kinds = self.spec_types(spec_id, None)
            known_kinds = [kind for kind in kinds if kind is not None]
            if len(known_kinds) == len(kinds):
                numbers = (item.field_id for item in self.ice_spec(spec_id).fields)
                types[spec_id] = list(zip(numbers, known_kinds, strict=True))
        return types

    def spec_types(self, spec_id: int, schema_id: int | None) -> list[pa.DataType | None]:
        """Returns the types of the values of each field of a partition spec; ``None`` for dropped
        columns.
        """
        schema = self.spec_schema(schema_id)
        types: list[pa.DataType | None] = []
        for item in self.ice_spec(spec_id).fields:
            kind = None
            with contextlib.suppress(ValueError, UnsupportedVersionError):
                source = schema.find_field(item.source_id).field_type
                kind = arrow_type(item.transform.result_type(source))
            types.append(kind)
        return types

    def spec_schema(self, schema_id: int | None = None) -> Schema:
        """Returns a schema with the columns of all partition specs, including dropped columns."""
        schema = self.ice_schema(schema_id)
        sources = {
            item.source_id for spec in self.ice.metadata.specs().values() for item in spec.fields
        }
        dropped = []
        for number in sources:
            if schema.find_column_name(number) is None:
                field = self._dropped_field(number)
                if field is not None:
                    dropped.append(field)
        return Schema(*schema.fields, *dropped) if dropped else schema

    def _dropped_field(self, number: int) -> NestedField | None:
        """Returns a dropped field as the newest schema that had it defines it."""
        for schema in reversed(self.ice.metadata.schemas):
            if schema.find_column_name(number) is not None:
                kind = schema.find_field(number).field_type
                return NestedField(number, f"dropped {number}", kind)
        return None

    def first_cluster_id(self) -> int | None:
        """Returns the field id of the first column of the cluster key."""
        fields = self.ice.metadata.sort_order().fields
        return fields[0].source_id if fields and self.cluster_by() else None

    @property
    def spec_ids(self) -> list[int]:
        """The ids of all partition specs, including old ones."""
        return [int(number) for number in self.ice.metadata.specs()]

    def ice_spec(self, spec_id: int) -> PartitionSpec:
        return self.ice.metadata.specs()[spec_id]

    # ---------------------------------------------------------------- snapshots and references

    @property
    def snapshots(self) -> list[Snapshot]:
        """All snapshots that have not expired, in the order of their commits."""
        return sorted(_snapshots(self.ice.metadata).values(), key=lambda item: item.sequence)

    def snapshot(self, number: int) -> Snapshot | None:
        return _snapshots(self.ice.metadata).get(number)

    def named(self, given: int | str) -> Snapshot | None:
        """Returns a snapshot by its id or its tag."""
        if not isinstance(given, str):
            return self.snapshot(given)
        tag = self.references.get(given)
        return None if tag is None or tag.kind != "tag" else self.snapshot(tag.snapshot)

    @property
    def references(self) -> dict[str, Reference]:
        """Tags and branches by name, including ``main``."""
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

    def head(self, branch: str | None = None) -> Snapshot | None:
        """Returns the newest snapshot of a branch, by default of :attr:`branch`."""
        reference = self.ice.metadata.refs.get(self.branch if branch is None else branch)
        return None if reference is None else self.snapshot(reference.snapshot_id)

    def snapshot_at(self, timestamp_ms: int) -> Snapshot | None:
        """Returns the snapshot of ``main`` at this time; ``None`` if none existed or it has
        expired.

        Some writers remove the entries of expired snapshots from the log but keep earlier entries.
        Therefore an entry is valid until the next entry only if no snapshot between the two can be
        missing.
        """
        log = self.ice.metadata.snapshot_log
        passed = [i for i, entry in enumerate(log) if entry.timestamp_ms <= timestamp_ms]
        if not passed:
            return None
        at = passed[-1]
        snapshot = self.snapshot(log[at].snapshot_id)
        if snapshot is None or at == len(log) - 1:
            return snapshot
        after = self.snapshot(log[at + 1].snapshot_id)
        follows = after is not None and after.parent == snapshot.id
        return snapshot if follows or self._none_gone_since(snapshot) else None

    def _none_gone_since(self, snapshot: Snapshot) -> bool:
        """Returns whether all snapshots that were committed after this one still exist."""
        metadata = self.ice.metadata
        if not snapshot.sequence:
            return False  # written in format version 1, without sequence numbers
        later = sum((item.sequence_number or 0) > snapshot.sequence for item in metadata.snapshots)
        return bool(later == metadata.last_sequence_number - snapshot.sequence)

    def ancestors(self, snapshot: Snapshot | None) -> Iterator[Snapshot]:
        """Yields a snapshot and its ancestors, newest first, up to the first one that has expired.

        Raises:
            CorruptFileError: a snapshot is its own ancestor.
        """
        passed: set[int] = set()
        while snapshot is not None:
            if snapshot.id in passed:
                raise CorruptFileError(
                    f"{self.metadata_file}: snapshot {snapshot.id} is its own ancestor"
                )
            passed.add(snapshot.id)
            yield snapshot
            snapshot = None if snapshot.parent is None else self.snapshot(snapshot.parent)

    def is_newer_than(self, other: Metadata) -> bool:
        """Returns whether this version of the table is newer than another one.

        The log of metadata files decides. If it does not reach back far enough, the sequence
        numbers decide, then the timestamps.
        """
        if self.metadata_file == other.metadata_file:
            return False
        if other.metadata_file in self.metadata_files()[:0:-1]:
            return True
        if self.metadata_file in other.metadata_files()[1:]:
            return False
        return self._age > other._age

    @property
    def _age(self) -> tuple[int, int]:
        metadata = self.ice.metadata  # version 1 has no sequence numbers
        return getattr(metadata, "last_sequence_number", 0), metadata.last_updated_ms

    def metadata_files(self) -> list[str]:
        """This metadata file and the earlier files in its log."""
        older = [entry.metadata_file for entry in self.ice.metadata.metadata_log]
        return [self.metadata_file, *older]

    def statistics_files(self) -> list[tuple[str, int]]:
        """Returns (path, snapshot id) of the statistics files that other engines have written."""
        metadata = self.ice.metadata
        return [
            (item.statistics_path, item.snapshot_id)
            for item in (*metadata.statistics, *metadata.partition_statistics)
        ]

    def document_bytes(self) -> int:
        """Returns the bytes of this metadata file; 0 if a newer version replaced and removed it."""
        try:
            return len(self.ice.io.new_input(self.metadata_file))
        except FileNotFoundError:
            return 0

    # ---------------------------------------------------------------- manifests

    def manifests(self, snapshot: Snapshot) -> list[Manifest]:
        """Returns the manifests of a snapshot.

        Cost: one read, of its manifest list, unless this process read or wrote it recently.
        """
        kept = kept_lists.get(snapshot.manifest_list)
        if kept is not None:
            return list(kept)
        self.reads += 1
        try:
            with self.ice.io.new_input(snapshot.manifest_list).open() as source:
                data = source.read()
        except FileNotFoundError as error:
            raise FileNotFoundError(
                errno.ENOENT,
                f"{'.'.join(self.name)}: the manifest list of snapshot {snapshot.id} is missing; "
                "the snapshot has expired, or another program removed the file",
                snapshot.manifest_list,
            ) from error
        specs = self.ice.metadata.specs()
        fields = {number: len(spec.fields) for number, spec in specs.items()}
        with decoding(snapshot.manifest_list, "manifest list"):
            listed = list(_listed(data, snapshot.manifest_list, fields))
            translation = translation_of(snapshot.manifest_list)
            if translation is not None:
                for item in listed:
                    item[0] = translation.path(item.manifest_path)
            manifests = [plain_manifest(item) for item in listed]
        kept_lists.put(snapshot.manifest_list, manifests)
        return list(manifests)

    @property
    def known_manifests(self) -> int:
        """Number of manifests of the newest snapshot; 0 if their list is not in memory."""
        head = self.head()
        return 0 if head is None else len(kept_lists.get(head.manifest_list) or ())

    def entries(self, manifest: Manifest) -> list[Entry]:
        """Returns the live files of a manifest. Cost: one read, unless this process wrote it."""
        kept = kept_entries.get(manifest.path)
        if kept is not None:
            return list(kept)
        return [
            Entry(plain_file(entry.data_file), entry.sequence_number or 0, manifest.path, entry)
            for entry in self.all_entries(manifest)
            if entry.status != ManifestEntryStatus.DELETED
        ]

    def all_entries(self, manifest: Manifest) -> list[ManifestEntry]:
        """Returns all files of a manifest as pyiceberg entries, including removed files."""
        kept = kept_entries.get(manifest.path)
        if kept is not None:
            return [entry.raw for entry in kept]
        data = self.read(manifest.path)
        spec = self.ice_spec(manifest.spec_id)
        with decoding(manifest.path, "manifest"):
            entries = list(_entries(data, manifest.raw, spec))
        translation = translation_of(manifest.path)
        if translation is not None:
            for entry in entries:
                for place in _PATHS:
                    if entry.data_file[place] is not None:
                        entry.data_file[place] = translation.path(entry.data_file[place])
        return entries

    def columns(self, manifests: Sequence[Manifest]) -> Iterator[ManifestFiles]:
        """Returns the live files of each manifest, as columns.

        Cost: one read each. From a store, all are read concurrently before this returns.
        """
        self.reads += len(manifests)
        paths = [manifest.path for manifest in manifests]
        contents: Iterator[bytes]
        if len(paths) > 1 and self.distant:
            contents = at_once(self._content, paths, connections())
        else:
            contents = map(self._content, paths)
        return (
            self._decoded(manifest, data, None)[0]
            for manifest, data in zip(manifests, contents, strict=True)
        )

    def encoded_entries(self, manifest: Manifest) -> tuple[ManifestFiles, list[bytes]]:
        """Returns the live files of a manifest, and their encoded entries for another manifest.

        Entries are copied as bytes if their schema is the current one.
        """
        raw: list[RawEntry] = []
        files, schema = self._decoded(manifest, self.read(manifest.path), raw)
        as_now = schema == schema_of(entry_schema(self, manifest.spec_id))
        # The entries of a new manifest store the row ids that they inherit now.
        inherits = self.has_row_ids or translation_of(manifest.path) is not None
        if not as_now or inherits:
            entries = self.entries(manifest)
            return files, [encoded_entry(self, manifest.spec_id, entry) for entry in entries]
        heads: dict[tuple[int | None, int, int], bytes] = {}
        encoded_files = []
        for snapshot, sequence, file_sequence, encoded in raw:
            head = heads.get((snapshot, sequence, file_sequence))
            if head is None:
                added = manifest.raw.added_snapshot_id if snapshot is None else snapshot
                numbers = [encoded_long(n) for n in (added, sequence, file_sequence)]
                head = encoded_long(_EXISTING) + b"".join(b"\x02" + n for n in numbers)
                heads[snapshot, sequence, file_sequence] = head
            encoded_files.append(head + encoded)
        return files, encoded_files

    def _decoded(
        self, manifest: Manifest, data: bytes, raw: list[RawEntry] | None
    ) -> tuple[ManifestFiles, Any]:
        container = read_container(data, new_decoder, manifest.path)
        files = manifest_files(
            container,
            new_decoder,
            path=manifest.path,
            spec_id=manifest.spec_id,
            partition=[item.field_id for item in self.ice_spec(manifest.spec_id).fields],
            deletes=manifest.deletes,
            sequence=manifest.raw.sequence_number,
            first_row_id=manifest.first_row_id,
            raw=raw,
        )
        translation = translation_of(manifest.path)
        if translation is not None:
            files.translate(translation)
        return files, container.schema

    def first_partition_range(self, manifest: Manifest) -> tuple[Any, Any]:
        """Returns the least and greatest value of the first partition field in a manifest, if
        known.
        """
        fields = self.partition_types()[manifest.spec_id]
        ranges = manifest.raw.partitions
        if (
            not fields
            or not ranges
            or ranges[0].lower_bound is None
            or ranges[0].upper_bound is None
        ):
            return None, None
        kind = cast(PrimitiveType, primitive(fields[0][1]))
        return from_bytes(kind, ranges[0].lower_bound), from_bytes(kind, ranges[0].upper_bound)

    def blob_path(self, name: str) -> str:
        """Returns the path of a blob of cubes."""
        return f"{self.location}/metadata/{name}"

    def has_cubes(self, snapshot: Snapshot | None) -> bool:
        """Returns whether files of a snapshot may belong to an OTree."""
        return bool(blob_names(self.ancestors(snapshot)))

    def cubes(self, snapshot: Snapshot | None) -> Blocks:
        """Returns the cubes of all files that the snapshot's blobs describe.

        Some of these files may have been removed.
        """
        names = blob_names(self.ancestors(snapshot))
        return self.cubes_in(names)

    def cubes_in(self, names: Sequence[str]) -> Blocks:
        """Returns the cubes in some blobs."""
        return read_blobs([self.blob_path(name) for name in names], self.read)

    def blob_names_old_places(self, name: str) -> bool:
        """Returns whether a blob of cubes has outdated paths of files."""
        translation = translation_of(self.blob_path(name))
        if translation is None:
            return False
        files = Blocks.from_bytes(self.read(self.blob_path(name))).files
        return any(translation.path(path) != path for path in files)

    def list_names_old_places(self, snapshot: Snapshot) -> bool:
        """Returns whether the manifest list of a snapshot has outdated paths of manifests."""
        translation = translation_of(snapshot.manifest_list)
        if translation is None:
            return False
        data = self.read(snapshot.manifest_list)
        fields = {number: len(spec.fields) for number, spec in self.ice.metadata.specs().items()}
        with decoding(snapshot.manifest_list, "manifest list"):
            paths = [item.manifest_path for item in _listed(data, snapshot.manifest_list, fields)]
        return any(translation.path(path) != path for path in paths)

    def names_old_places(self, manifest: Manifest) -> bool:
        """Returns whether a manifest has outdated paths of files. Cost: one read."""
        translation = translation_of(manifest.path)
        if translation is None:
            return False
        data = self.read(manifest.path)
        with decoding(manifest.path, "manifest"):
            entries = _entries(data, manifest.raw, self.ice_spec(manifest.spec_id))
            paths = [entry.data_file[place] for entry in entries for place in _PATHS]
        return any(path is not None and translation.path(path) != path for path in paths)

    def read(self, path: str) -> bytes:
        """Returns a whole file of the table."""
        self.reads += 1
        return self._content(path)

    def _content(self, path: str) -> bytes:
        with self.ice.io.new_input(path).open() as source:
            return bytes(source.read())

    def added_and_removed(self, snapshot: Snapshot) -> tuple[list[Entry], list[Entry]]:
        """Returns the files that one commit added, and the files that it removed.

        Cost: reads the manifests it wrote.
        """
        added: list[Entry] = []
        removed: list[Entry] = []
        kinds = {ManifestEntryStatus.ADDED: added, ManifestEntryStatus.DELETED: removed}
        for manifest in self.manifests(snapshot):
            if manifest.raw.added_snapshot_id != snapshot.id:
                continue
            for entry in self.all_entries(manifest):
                if entry.snapshot_id == snapshot.id and entry.status in kinds:
                    file, sequence = plain_file(entry.data_file), entry.sequence_number or 0
                    kinds[entry.status].append(Entry(file, sequence, manifest.path, entry))
        return added, removed


def _fields_in(kind: IcebergType) -> Sequence[NestedField]:
    if isinstance(kind, ListType):
        return (kind.element_field,)
    if isinstance(kind, MapType):
        return kind.key_field, kind.value_field
    return kind.fields if isinstance(kind, StructType) else ()


def _defaults(fields: Iterable[NestedField]) -> dict[int, pa.Scalar]:
    defaults: dict[int, pa.Scalar] = {}
    for item in fields:
        kind = item.field_type
        defaults |= _defaults(_fields_in(kind))
        if item.initial_default is not None:
            defaults[item.field_id] = constant(arrow_type(kind), item.initial_default)
    return defaults


kept_lists: LruCache[list[Manifest]] = LruCache(KEPT_METADATA)


# Entries of delete manifests that this process wrote, by path. Each commit may replace the deletion
# vectors of the last one.
kept_entries: LruCache[list[Entry]] = LruCache(_KEPT_ENTRIES, len)


def forget_lists() -> None:
    """Clears the caches of manifest lists and entries."""
    kept_lists.clear()
    kept_entries.clear()


def manifest_row_id(item: ManifestFile) -> int | None:
    """Returns the first row id that the data files of a manifest inherit."""
    number: int | None = item[15] if item.content == ManifestContent.DATA else None
    return number


def plain_manifest(item: ManifestFile) -> Manifest:
    return Manifest(
        path=item.manifest_path,
        deletes=item.content == ManifestContent.DELETES,
        spec_id=item.partition_spec_id,
        files=_total(item.added_files_count, item.existing_files_count),
        rows=_total(item.added_rows_count, item.existing_rows_count),
        removed=item.deleted_files_count != 0,
        sequence=item.sequence_number or 0,
        bytes=item.manifest_length,
        first_row_id=manifest_row_id(item),
        raw=item,
    )


@contextlib.contextmanager
def parsing(path: str, data: bytes) -> Iterator[None]:
    """Turns errors of parsing a metadata file into CorruptFileError or UnsupportedVersionError.

    Raises:
        UnsupportedVersionError: the file has a format version above 2, which pyiceberg supports
            only in part.
        CorruptFileError: as :func:`decoding`.
    """
    try:
        with decoding(path, "metadata file"):
            yield
    except CorruptFileError as error:
        version = _version_of(path, data)
        if version is None or version <= _COMPLETE_VERSION:
            raise
        why = " ".join(str(error.__cause__).split())
        raise UnsupportedVersionError(
            f"{path}: a table of version {version} of Iceberg's format, with a type or a default "
            f"that nimblepy does not read: {why}"
        ) from error


def _version_of(path: str, data: bytes) -> int | None:
    try:
        unpacked = Compressor.get_compressor(path).stream_decompressor(io.BytesIO(data))
        version = json.loads(unpacked.read())["format-version"]
    except BAD_BYTES:
        return None
    return version if isinstance(version, int) else None


@contextlib.contextmanager
def decoding(path: str, what: str) -> Iterator[None]:
    """Raises CorruptFileError for bytes that violate their schema or Iceberg's specification."""
    try:
        yield
    except (*BAD_BYTES, ValidationError) as error:
        raise CorruptFileError(f"{path}: not a {what}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Returns the message of an error in one line; for pydantic's errors, the first one."""
    candidates = (error, error.__cause__, *error.args)
    details_of_each = (getattr(item, "errors", None) for item in candidates)
    details = next((item for item in details_of_each if callable(item)), None)
    if details is None:
        if isinstance(error, UnicodeDecodeError):  # its repr has all bytes
            return f"{type(error).__name__}: {error}"
        return " ".join(repr(error).split())
    first = details(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else str(first["msg"])


def _records(data: bytes, path: str) -> tuple[Any, Iterator[Any]]:
    """Returns the schema of the records of an Avro file, and the records."""
    container = read_container(data, new_decoder, path)
    return container.schema, records_of(container, Source(container.records, new_decoder))


# Python types of the values in manifests and manifest lists.
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


_LISTED = MANIFEST_LIST_FILE_SCHEMAS[RECORD_VERSION].fields


_ENTRY = MANIFEST_ENTRY_SCHEMAS[RECORD_VERSION].fields


_FILE = DATA_FILE_TYPE[RECORD_VERSION].fields


# The place of a field in a data file's record.
_FIRST_ROW_ID = 16
_PATHS = (1, 17)  # the file, and the data file that it deletes rows of


# Counts of files and rows, which manifest lists of format version 1 may omit.
_NO_COUNTS = frozenset({504, 505, 506, 512, 513, 514})


class _Fields:
    """Extracts the specification's fields from records of a file that may have other fields."""

    def __init__(self, fields: Sequence[NestedField], schema: Any) -> None:
        """Prepares the extraction. ``schema`` is the Avro schema of the records."""
        own = fields_by_id(schema)
        self._places = {number: i for i, (number, _) in enumerate(own)}
        self._schemas = dict(own)
        self._fields = [
            (self._places.get(item.field_id), _IN_MEMORY[type(item.field_type)], item)
            for item in fields
        ]

    def schema(self, number: int) -> Any:
        """Returns the schema of the values of a field."""
        return without_null(self._schemas.get(number, "null"))

    def of(self, record: Sequence[Any], number: int) -> Any:
        """Returns the value of a field that records have."""
        return record[self._places[number]]

    def __call__(self, record: Sequence[Any]) -> list[Any]:
        """Returns the values of a record.

        Raises:
            ValueError: a value is missing or has another type.
        """
        values = []
        for place, kind, item in self._fields:
            value = None if place is None else record[place]
            if value is None:
                value = item.initial_default
                if value is None and item.required and item.field_id not in _NO_COUNTS:
                    raise ValueError(f"{item.name} is missing")
            elif type(value) is not kind or (kind is dict and not _is_map(item, value)):
                raise ValueError(f"{item.name} is {value!r}, expected {item.field_type}")
            values.append(value)
        return values


def _is_map(item: NestedField, value: Any) -> bool:
    kind = _IN_MEMORY[type(cast(MapType, item.field_type).value_type)]
    return all(type(k) is int and type(v) is kind for k, v in value.items())


def _listed(data: bytes, path: str, specs: Mapping[int, int]) -> Iterator[ManifestFile]:
    """Yields the manifests in a manifest list.

    Args:
        specs: number of fields of each partition spec.
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
            raise ValueError(f"partition spec {made.partition_spec_id} does not exist in the table")
        for i in (1, *range(7, 13)):
            if made[i] is not None and made[i] < 0:
                raise ValueError(f"{_LISTED[i].name} is {made[i]}")
        if made.partitions is not None and summary is not None:
            if len(made.partitions) != specs[made.partition_spec_id]:
                raise ValueError(f"{len(made.partitions)} partition fields: {made.manifest_path}")
            made[13] = [PartitionFieldSummary(*summary(item)) for item in made.partitions]
        yield made


def _entries(data: bytes, manifest: ManifestFile, spec: PartitionSpec) -> Iterator[ManifestEntry]:
    """Yields the files that a manifest lists, with what they inherit from the manifest."""
    schema, records = _records(data, manifest.manifest_path)
    fields = _Fields(_ENTRY, schema)
    described = _Fields(_FILE, fields.schema(2))
    partition = _Fields((), described.schema(102))
    next_row_id = manifest_row_id(manifest)
    for record in records:
        made = ManifestEntry(*fields(record))
        made.status = ManifestEntryStatus(made.status)
        file = IceDataFile(*described(fields.of(record, 2)))
        file[0] = DataFileContent(file.content)
        if (file.content == DataFileContent.DATA) != (manifest.content == ManifestContent.DATA):
            raise ValueError(
                f"a file with the content {file.content} is in a manifest of {manifest.content}"
            )
        values = described.of(fields.of(record, 2), 102)
        file[3] = Record(*(partition.of(values, item.field_id) for item in spec.fields))
        if file.record_count < 0 or file.file_size_in_bytes < 0:
            raise ValueError(
                f"a file has {file.record_count} rows and {file.file_size_in_bytes} bytes"
            )
        file.spec_id = manifest.partition_spec_id
        made.data_file = file
        if made.snapshot_id is None and manifest.added_snapshot_id is not None:
            made.snapshot_id = manifest.added_snapshot_id
        # Added files inherit the sequence number of the commit. Format version 1 has no sequence
        # numbers.
        if manifest.sequence_number == 0 or made.status == ManifestEntryStatus.ADDED:
            if made.sequence_number is None:
                made.sequence_number = manifest.sequence_number
            if made.file_sequence_number is None:
                made.file_sequence_number = manifest.sequence_number
        if next_row_id is None:
            file[_FIRST_ROW_ID] = None
        elif file[_FIRST_ROW_ID] is None and made.status != ManifestEntryStatus.DELETED:
            file[_FIRST_ROW_ID] = next_row_id
            next_row_id += file.record_count
        yield made


def _total(added: int | None, existing: int | None) -> int:
    """Returns the sum; -1 if the manifest list, of format version 1, lacks a count."""
    return -1 if added is None or existing is None else added + existing


def check_name_mapping(mapping: str) -> None:
    """Raises if the text cannot be parsed as a name mapping when the table is read."""
    try:
        parse_mapping_from_json(mapping)
    except ValueError as error:
        first = str(error).splitlines()[0]
        raise InvalidArgumentError(
            f"properties: {NAME_MAPPING}: expected a name mapping of Iceberg in JSON, "
            f"got {mapping!r}: {first}"
        ) from error


def mapped_names(mapping: str | None) -> dict[tuple[str, ...], int]:
    ids: dict[tuple[str, ...], int] = {}

    def visit(fields: Any, above: tuple[str, ...]) -> None:
        for item in fields:
            for name in item.get("names", ()):
                if item.get("field-id") is not None:
                    ids[(*above, name)] = item["field-id"]
                visit(item.get("fields", ()), (*above, name))

    try:
        visit(json.loads(mapping or "[]"), ())
    except BAD_BYTES as error:
        raise CorruptFileError(
            f"the property {NAME_MAPPING} of the table is not a name mapping: {mapping!r}; "
            "replace it with alter().set_properties()"
        ) from error
    return ids


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


# Objects that later metadata shares with earlier metadata are converted once.
_plain = MadeOf(_plain_snapshot)
_arrow_schema = MadeOf(to_arrow)
_docs = MadeOf(docs_of)
# For each Iceberg schema: its Arrow schema, by the value of the property COLUMN_TYPES.
_detailed_schemas: MadeOf[dict[str, pa.Schema]] = MadeOf(lambda _: {})
# For each table's metadata: its snapshots, by id.
_snapshots: MadeOf[dict[int, Snapshot]] = MadeOf(
    lambda metadata: {item.snapshot_id: _plain(item) for item in metadata.snapshots}
)


def plain_file(item: IceDataFile) -> DataFile:
    return DataFile(
        path=item.file_path,
        format=str(item.file_format).upper(),
        rows=item.record_count,
        bytes=item.file_size_in_bytes,
        content=CONTENTS[item.content],
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
        equality_ids=ascending_ids(item.equality_ids),
        vector=vector_of(*_vector(item)),
        first_row_id=item[_FIRST_ROW_ID],
    )


def _vector(item: IceDataFile) -> Sequence[Any]:
    """Returns the fields of a deletion vector."""
    return [item[i] for i in range(17, 20)]


_forms: LruCache[ManifestForm] = LruCache(KEPT_METADATA)


def entry_schema(metadata: Metadata, spec_id: int) -> str:
    """Returns the Avro schema of the entries of new manifests."""
    return str(manifest_form(metadata, spec_id).records.schema)


def encoded_entry(metadata: Metadata, spec_id: int, entry: Entry) -> bytes:
    """Converts a live file that pyiceberg has read to an encoded entry of a new manifest."""
    old = entry.raw
    made = ManifestEntry.from_args(
        status=ManifestEntryStatus.EXISTING,
        snapshot_id=old.snapshot_id,
        sequence_number=old.sequence_number,
        file_sequence_number=old.file_sequence_number,
        data_file=old.data_file,
    )
    return bytes(manifest_form(metadata, spec_id).encode(made))


def manifest_form(metadata: Metadata, spec_id: int) -> ManifestForm:
    schema, spec = metadata.ice_schema(None), metadata.ice_spec(spec_id)
    version: Literal[2, 3] = 3 if metadata.format_version == 3 else 2
    key = f"{metadata.uuid}/{schema.schema_id}/{spec_id}/{version}"
    form = _forms.get(key)
    # The key needs more than ids: a copy of a catalog has tables with the same ids, which may get
    # other specs, and two racing commits may add different columns under the same schema id.
    if form is None or form.spec != spec or form.schema != schema:
        form = ManifestForm(schema, metadata.spec_schema(), spec, version)
        _forms.put(key, form)
    return form
