"""Changes a table's schema, partitioning and properties in one commit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table as IceTable
from pyiceberg.table import Transaction as IceTransaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertTableUUID,
    SetCurrentSchemaUpdate,
    UpgradeFormatVersionUpdate,
)
from pyiceberg.transforms import parse_transform
from pyiceberg.types import NestedField

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.columns import column_paths
from nimblepy.schema.field_ids import field_id_at
from nimblepy.schema.lineage import NAMES
from nimblepy.schema.names import Path, show_path
from nimblepy.table.base.file_names import (
    PUBLISHES_DELTA,
    file_names,
    names_after,
    names_property,
)
from nimblepy.table.base.transforms import free_name, partition_text
from nimblepy.table.iceberg import snapshot_commit
from nimblepy.table.iceberg.metadata import NAME_MAPPING, Metadata, mapped_names
from nimblepy.table.iceberg.schemas import (
    details_of,
    docs_of,
    field_id,
    primitive,
    to_arrow,
    to_iceberg,
    type_details,
    type_property,
    with_doc,
)
from nimblepy.table.iceberg.snapshot_commit import same_properties, same_version
from nimblepy.table.otree.layouts import WEIGHT

# Number of retries to copy metadata that other threads are using.
_MOST_COPIES = 20


class _Steps(IceTransaction):
    """A pyiceberg transaction that collects the updates for :func:`swap`."""

    _updates: tuple[Any, ...]
    _apply: Callable[[tuple[Any, ...]], Any]

    @property
    def updates(self) -> tuple[Any, ...]:
        """Updates of the table's metadata, in the order in which they were made."""
        return self._updates

    @property
    def table_metadata(self) -> TableMetadata:
        # Retry the copy: another thread may add a cached property meanwhile, which happens rarely.
        for _ in range(_MOST_COPIES):
            with contextlib.suppress(RuntimeError):
                return super().table_metadata
        return super().table_metadata

    def set_schema(self, schema: Schema) -> None:
        """Makes a schema the current one. Reuses an equal schema that the table has had."""
        schemas = self.table_metadata.schemas
        same = next((item.schema_id for item in schemas if item == schema), None)
        if same is None:
            number = max(item.schema_id for item in schemas) + 1
            added = schema.model_copy(update={"schema_id": number})
            self._apply((AddSchemaUpdate(schema=added), SetCurrentSchemaUpdate(schema_id=-1)))
        elif same != self.table_metadata.current_schema_id:
            self._apply((SetCurrentSchemaUpdate(schema_id=same),))


class _Names(NamedTuple):
    """Names of columns, and names that new columns cannot have.

    Attributes:
        by_id: the path of each column and struct field by field id.
        paths: the paths of all columns and struct fields.
        mapped: field ids by path of names, for files without ids.
        reserved: names of columns of the format.
        partitions: name, source column, transform and text of all partition fields.
    """

    by_id: dict[int | None, Path]
    paths: set[Path]
    mapped: dict[tuple[str, ...], int]
    reserved: Collection[str]
    partitions: Sequence[tuple[str, int, str, str]]

    def check(self, path: Path, number: int | None) -> None:
        """See :meth:`Evolution.check_free`."""
        if not path[-1]:
            raise InvalidArgumentError("a column needs a name, got ''")
        if path == (WEIGHT,):
            raise InvalidArgumentError(f"the name {WEIGHT!r} is reserved for OTree files")
        if len(path) == 1 and path[0] in self.reserved:
            raise InvalidArgumentError(f"the name {path[0]!r} is reserved in format version 3")
        names = self.by_id
        if path in self.paths and (number is None or names.get(number) != path):
            raise InvalidArgumentError(
                f"a column {show_path(path)!r} already exists; choose another name"
            )
        for name, source, transform, text in self.partitions:
            same = source == number and transform in ("identity", "void")
            if name == ".".join(path) and not same:
                raise InvalidArgumentError(
                    f"the name {show_path(path)!r} is used by the partition field {text} of a "
                    "current or old partition spec; choose another name"
                )
        mapped_id = self.mapped.get(path)
        if mapped_id is not None and mapped_id != number and names.get(mapped_id) != path:
            now = (
                f"{show_path(names[mapped_id])!r}"
                if mapped_id in names
                else "a column that was dropped"
            )
            raise InvalidArgumentError(
                f"the name {show_path(path)!r} stands for {now} in files without field ids; choose "
                "another name"
            )


class Evolution:
    """Changes of schema, partitioning and properties that are committed together."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._transaction = _Steps(metadata.ice)
        self._changed = False
        self._upgrades: tuple[UpgradeFormatVersionUpdate, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """The columns after the changes so far."""
        metadata = self._transaction.table_metadata
        return to_arrow(metadata.schema(), type_details(metadata.properties))

    def mapped_names(self) -> dict[tuple[str, ...], int]:
        """Returns field ids by path of names, for files without ids."""
        return mapped_names(self._transaction.table_metadata.properties.get(NAME_MAPPING))

    def primary_key_ids(self) -> set[int]:
        return set(self._transaction.table_metadata.schema().identifier_field_ids)

    def cluster_ids(self) -> set[int]:
        order = self._transaction.table_metadata.sort_order()
        return {item.source_id for item in order.fields}

    def partition_ids(self) -> set[int]:
        """Returns the columns of the current spec."""
        return {item.source_id for item in self._transaction.table_metadata.spec().fields}

    def old_partition_ids(self) -> set[int]:
        """Returns the columns of all specs that the table has had."""
        return {item.source_id for item in self._all_partition_fields()}

    def check_free(self, path: Path, number: int | None) -> None:
        """Checks that a column can have a name.

        Args:
            number: the field id of a column that is renamed; ``None`` for a new column.

        Raises:
            InvalidArgumentError: the name is empty or reserved, or a column, a partition field or
                files without field ids already use it.
        """
        self._names().check(path, number)

    def _names(self) -> _Names:
        schema = self.schema
        return _Names(
            {field_id_at(schema, path): path for path in column_paths(schema)},
            set(column_paths(schema)),
            self.mapped_names(),
            NAMES if self.has_row_ids else frozenset(),
            self._partitions(),
        )

    def _partitions(self) -> list[tuple[str, int, str, str]]:
        schema = self._transaction.table_metadata.schema()
        out = []
        for item in self._all_partition_fields():
            column = schema.find_column_name(item.source_id) or str(item.source_id)
            transform = str(item.transform)
            text = partition_text(transform, column)
            out.append((item.name, item.source_id, transform, text))
        return out

    def _all_partition_fields(self) -> list[Any]:
        specs = self._transaction.table_metadata.partition_specs
        return [item for spec in specs for item in spec.fields]

    def partition_fields(self) -> list[str]:
        """Returns the transforms of the current spec that partition the rows."""
        spec = self._transaction.table_metadata.spec()
        return [text for item in spec.fields if (text := str(item.transform)) != "void"]

    @property
    def properties(self) -> dict[str, str]:
        """The properties after the changes so far."""
        return dict(self._transaction.table_metadata.properties)

    @contextlib.contextmanager
    def _columns(self) -> Iterator[Any]:
        with self._transaction.update_schema() as update:
            yield update
        self._changed = True

    def add_column(
        self, path: tuple[str, ...], kind: pa.DataType, doc: str | None, default: Any
    ) -> None:
        with self._columns() as update:
            update.add_column(path, _to_iceberg(path, kind), doc=doc, default_value=default)
        self._keep_details({path: kind})

    def add_columns(self, columns: Sequence[pa.Field]) -> None:
        """Adds top-level columns without defaults.

        Raises:
            InvalidArgumentError: a column cannot have its name, or a type cannot be stored.
        """
        names = self._names()
        with self._columns() as update:
            for item in columns:
                path = (item.name,)
                try:
                    names.check(path, None)
                    update.add_column(path, _to_iceberg(path, item.type))
                except ValueError as error:
                    raise InvalidArgumentError(
                        f"column {item.name!r} cannot be added: {error}"
                    ) from error
                names.paths.add(path)
        self._keep_details({(item.name,): item.type for item in columns})

    def _keep_details(self, added: Mapping[Path, pa.DataType]) -> None:
        """Records what Iceberg's types do not say about new columns."""
        metadata = self._transaction.table_metadata
        schema = metadata.schema()
        details: dict[Any, Any] = {}
        for path, kind in added.items():
            field = schema.find_field(".".join(path))
            wrapper = Schema(NestedField(field.field_id, path[-1], field.field_type, False))
            details |= details_of(wrapper, pa.schema([pa.field(path[-1], kind)]))
        if details:
            old_details = type_details(metadata.properties)
            self._transaction.set_properties(type_property({**old_details, **details}))

    def rename_column(self, path: tuple[str, ...], name: str) -> None:
        with self._columns() as update:
            update.rename_column(path, name)

    def drop_column(self, path: tuple[str, ...]) -> None:
        with self._columns() as update:
            update.delete_column(path)

    def widen(self, path: tuple[str, ...], kind: pa.DataType) -> None:
        with self._columns() as update:
            update.update_column(path, field_type=primitive(kind))
        self._keep_details({path: kind})

    def move_first(self, path: tuple[str, ...]) -> None:
        with self._columns() as update:
            update.move_first(path)

    def move_after(self, path: tuple[str, ...], after: tuple[str, ...]) -> None:
        with self._columns() as update:
            update.move_after(path, after)

    def partition_by(self, fields: list[tuple[str, str, str]]) -> None:
        """Sets the fields of the new spec: (column, transform, name).

        Names that are taken are changed.
        """
        self._change_spec(fields)
        self._changed = True

    def set_properties(self, properties: Mapping[str, str]) -> None:
        self._transaction.set_properties(dict(properties))
        self._changed = True

    def unset_properties(self, names: Iterable[str]) -> None:
        """Removes properties; names that are not set are ignored."""
        present = [name for name in names if name in self.properties]
        if present:
            self._transaction.remove_properties(*present)
            self._changed = True

    @property
    def docs(self) -> dict[int, str]:
        """The documentation of fields after the changes so far, by field id."""
        return docs_of(self._transaction.table_metadata.schema())

    def set_doc(self, number: int, doc: str | None) -> None:
        """Changes the documentation of a field; ``None`` removes it."""
        schema = self._transaction.table_metadata.schema()
        if docs_of(schema).get(number) != doc:
            self._transaction.set_schema(with_doc(schema, number, doc))
            self._changed = True

    def commit(self) -> Metadata:
        """Commits all changes in one step.

        Raises:
            SwapLost: columns, partitioning, order or properties were changed meanwhile. New
                snapshots are allowed.
        """
        if not self._changed:
            return self._metadata
        self._keep_file_names()
        ice = self._metadata.ice
        base = ice.metadata
        # Requires that everything the change was checked against is unchanged, not only what it
        # changes.
        checks: list[Any] = [
            AssertTableUUID(uuid=base.table_uuid),
            AssertCurrentSchemaId(current_schema_id=base.current_schema_id),
            AssertLastAssignedFieldId(last_assigned_field_id=base.last_column_id),
            AssertDefaultSpecId(default_spec_id=base.default_spec_id),
            AssertLastAssignedPartitionId(last_assigned_partition_id=base.last_partition_id),
            AssertDefaultSortOrderId(default_sort_order_id=base.default_sort_order_id),
            *same_version(self._metadata),
            *same_properties(self._metadata),
        ]
        updates = (*self._upgrades, *self._transaction.updates)
        return snapshot_commit.swap(self._metadata, tuple(checks), updates)

    @property
    def has_row_ids(self) -> bool:
        """Whether rows have ids after the changes so far."""
        return self._metadata.has_row_ids or bool(self._upgrades)

    def upgrade(self, version: int) -> None:
        """Upgrades the format version."""
        if version > self._metadata.format_version:
            self._upgrades = (UpgradeFormatVersionUpdate(format_version=version),)
            self._changed = True

    def pending(self) -> Metadata:
        """Returns the metadata with all changes, for the commit of rows that also makes them."""
        self._keep_file_names()
        ice = self._metadata.ice
        base = ice.metadata
        checks = [
            AssertCurrentSchemaId(current_schema_id=base.current_schema_id),
            AssertLastAssignedFieldId(last_assigned_field_id=base.last_column_id),
            *same_version(self._metadata),
        ]
        changed = IceTable(
            ice.name(),
            self._transaction.table_metadata,
            ice.metadata_location,
            ice.io,
            ice.catalog,
            ice.config,
        )
        updates = self._transaction.updates
        return Metadata(
            changed,
            branch=self._metadata.branch,
            base=self._metadata,
            checks=checks,
            updates=updates,
        )

    def _keep_file_names(self) -> None:
        """Keeps the names of columns in the files of a table that is published as Delta."""
        properties = self.properties
        before = self._metadata
        if properties.get(PUBLISHES_DELTA) != "true" or self.schema.equals(before.schema(), True):
            return
        schema = self._transaction.table_metadata.schema()
        for number in schema.field_ids:
            default = getattr(schema.find_field(number), "initial_default", None)
            if default is not None and before.column_name(number) is None:
                name = schema.find_column_name(number)
                raise InvalidArgumentError(
                    f"column {name!r}: this table is published as Delta, where older rows of "
                    "a new column are null; add it without a default, or first stop publishing "
                    "with publish_delta(keep=False)"
                )
        schemas = [before.schema(item.schema_id) for item in before.ice.metadata.schemas]
        old = file_names(properties)
        names = names_after(before.schema(), self.schema, old, schemas)
        if names != old:
            self._transaction.set_properties(names_property(names))

    def is_made(self, newest: Metadata) -> bool:
        """Returns whether newer metadata has the changes, from any writer.

        New columns and partitions count even if they were changed again later. For properties, only
        the current values are compared.
        """
        base, target = self._metadata.ice.metadata, self._transaction.table_metadata
        now = newest.ice.metadata
        old = {schema.schema_id for schema in base.schemas}
        schemas = [now.schema(), *(item for item in now.schemas if item.schema_id not in old)]
        specs = [
            now.spec(),
            *(item for key, item in now.specs().items() if key not in base.specs()),
        ]
        return (
            target.schema() in (base.schema(), *schemas)
            and target.spec().fields in (item.fields for item in (base.spec(), *specs))
            and all(item.format_version <= newest.format_version for item in self._upgrades)
            and target.properties.items() - base.properties.items() <= now.properties.items()
            and not (base.properties.keys() - target.properties.keys()) & now.properties.keys()
        )

    def _change_spec(self, fields: list[tuple[str, str, str]]) -> None:
        metadata = self._transaction.table_metadata
        schema, spec = metadata.schema(), metadata.spec()
        new_fields = {
            (field_id(schema, field[0]), str(parse_transform(field[1]))): field for field in fields
        }
        old_fields = {
            (item.source_id, str(item.transform)): item.name
            for item in self._all_partition_fields()
        }
        taken = {*schema.column_names, *old_fields.values()}
        with self._transaction.update_spec() as update:
            for item in spec.fields:
                if new_fields.pop((item.source_id, str(item.transform)), None) is None:
                    update.remove_field(item.name)
            for key, field in new_fields.items():
                # If a former field has its old name again, it is recognized as the same field.
                name = old_fields.get(key) or free_name(field, taken)
                taken.add(name)
                update.add_field(field[0], parse_transform(field[1]), name)


def with_columns(metadata: Metadata, columns: Sequence[pa.Field]) -> Metadata:
    """Returns the metadata with additional columns, which a commit for it also adds.

    Raises:
        InvalidArgumentError: a column cannot have its name.
    """
    evolution = Evolution(metadata)
    present = set(evolution.schema.names)
    missing = [item for item in columns if item.name not in present]
    if not missing:
        return metadata
    evolution.add_columns(missing)
    return evolution.pending()


def _to_iceberg(path: Path, kind: pa.DataType) -> Any:
    return to_iceberg(pa.schema([pa.field(path[-1], kind)])).fields[0].field_type
