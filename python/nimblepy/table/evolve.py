"""Changes a table's columns, partitions, layout and properties in one commit."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from nimblepy.errors import ConflictError, InvalidArgumentError
from nimblepy.schema.columns import column_paths, resolve_column
from nimblepy.schema.field_ids import field_id_at
from nimblepy.schema.key_values import exact_key
from nimblepy.schema.names import ColumnName, Path, show_path
from nimblepy.schema.values import show
from nimblepy.table import iceberg as ice
from nimblepy.table.base.arguments import texts_by_name, texts_of
from nimblepy.table.base.model import CLAIMS_PREFIX, COMMENT
from nimblepy.table.base.transforms import parse_partition
from nimblepy.table.base.types import table_type, widens
from nimblepy.table.base.values import internal_value
from nimblepy.table.delta.publish import check_columns
from nimblepy.table.otree.layouts import Layout, check_layout, layout_ids, layout_property
from nimblepy.table.writing.access import TableAccess
from nimblepy.table.writing.commit import swapped
from nimblepy.table.writing.settings import (
    check_lineage_names,
    check_name,
    check_property,
    checked_version,
)

_Step = Callable[[ice.Evolution], None]


class Alter:
    """Collects changes of a table. ``with table.alter() as a:`` commits them after the block.

    No data file is rewritten: old files are read with the new schema, by field id. An exception in
    the block leaves the table unchanged.
    """

    def __init__(self, table: TableAccess) -> None:
        metadata = table.newest()
        self._table = table
        self._metadata = metadata
        self._steps: list[_Step] = []
        self._pending = False  # steps that were not committed or discarded
        # Names of the properties, and field ids of the documentation, that the steps change.
        self._changed_properties: set[str] = set()
        self._changed_docs: set[int] = set()
        # Each call applies its step at once, so that it raises the step's errors itself.
        self._trial = ice.Evolution(metadata)

    # ------------------------------------------------------------------ columns

    def add_column(
        self,
        name: ColumnName,
        type: pa.DataType,
        *,
        default: Any = None,
        after: str | None = None,
        first: bool = False,
        doc: str | None = None,
    ) -> Self:
        """Adds a column, or a field of a struct (``location.lat``).

        Args:
            default: the value of existing rows, exactly representable in the type. It does not
                apply to new rows. Structs, lists, maps and timestamps with nanoseconds can
                only have null.
            after: the preceding column, in the same struct; by default the column is the last.

        Raises:
            InvalidArgumentError: the column exists, its type is not supported, or the default
                cannot be represented.
        """
        if not isinstance(type, pa.DataType):
            raise InvalidArgumentError(f"add_column: expected an Arrow type, got {type!r}")

        def step(evolution: ice.Evolution) -> None:
            path = _new_path(evolution.schema, name)
            evolution.check_free(path, None)
            kind = table_type(
                type,
                f"column {show_path(path)!r}",
                nested=len(path) > 1,
                nanoseconds=evolution.has_row_ids,
            )
            evolution.add_column(path, kind, doc, _default(type, kind, default, path))
            _move(evolution, path, after, first)

        return self._step(step)

    def rename_column(self, old: ColumnName, new: str) -> Self:
        """Renames a column, or a field of a struct."""
        if not isinstance(new, str) or not new:
            raise InvalidArgumentError(f"rename_column: expected a name, got {new!r}")

        def step(evolution: ice.Evolution) -> None:
            path = _path(evolution, old)
            evolution.check_free((*path[:-1], new), field_id_at(evolution.schema, path))
            evolution.rename_column(path, new)

        return self._step(step)

    def drop_column(self, name: ColumnName) -> Self:
        """Drops a column, or a field of a struct.

        Raises:
            InvalidArgumentError: it is the only column, or it is part of the primary key, the
                cluster key, the layout or a partition spec.
        """
        return self._step(lambda evolution: _drop(evolution, name))

    def widen(self, name: ColumnName, type: pa.DataType) -> Self:
        """Widens the type of a column: int32 to int64, float32 to float64, a decimal to more
        digits, or a column of Iceberg's type ``unknown`` (only nulls) to any type without fields.
        """

        def step(evolution: ice.Evolution) -> None:
            path = _path(evolution, name)
            have = resolve_column(evolution.schema, path).type
            if not have.equals(type):
                if not widens(have, type):
                    raise InvalidArgumentError(
                        f"widen: column {show_path(path)!r} is {have}; {type} cannot represent "
                        "all its values; int32 widens to int64, float32 to float64, a decimal to "
                        "more digits"
                    )
                evolution.widen(path, type)

        return self._step(step)

    def move_column(
        self, name: ColumnName, *, after: str | None = None, first: bool = False
    ) -> Self:
        """Moves a column to the first place, or after another column of the same struct."""
        if first == (after is not None):
            raise InvalidArgumentError("move_column: give exactly one of after= and first=True")
        return self._step(lambda e: _move(e, _path(e, name), after, first))

    def set_doc(self, name: ColumnName, text: str | None) -> Self:
        """Documents a column, or a field of a struct; ``None`` removes the documentation."""
        checked = _text_or_none(text, "set_doc")

        def step(evolution: ice.Evolution) -> None:
            number = field_id_at(evolution.schema, _path(evolution, name))
            self._changed_docs.add(number)
            evolution.set_doc(number, checked)

        return self._step(step)

    # ------------------------------------------------------------------ partitions, properties

    def partition_by(self, *fields: str | Sequence[str]) -> Self:
        """Changes the partitioning of new files. Existing files are not changed.

        Args:
            fields: transforms as for ``create_table``, as arguments or a list. Without any, the
                partitioning is removed.
        """
        texts: list[str] = []
        for item in fields:
            texts.extend(texts_of(item, "partition_by"))

        def step(evolution: ice.Evolution) -> None:
            if texts and layout_ids(evolution.properties):
                raise InvalidArgumentError(
                    "partition_by: a table with a layout cannot have partitions; "
                    "remove it with layout(None) first"
                )
            evolution.partition_by([parse_partition(text, evolution.schema) for text in texts])

        return self._step(step)

    def layout(self, layout: Layout | None) -> Self:
        """Changes the layout of new files. Existing files are not changed.

        Args:
            layout: as for ``create_table``; ``None`` removes the layout.
        """

        def step(evolution: ice.Evolution) -> None:
            if layout is not None:
                partitioned = bool(evolution.partition_fields())
                check_layout(layout, evolution.schema, partitioned=partitioned)
            self._set_properties(evolution, layout_property(evolution.schema, layout))

        return self._step(step)

    def set_properties(self, properties: Mapping[str, str]) -> Self:
        """Sets properties of the table."""
        kept = texts_by_name(properties, "set_properties")
        for name, value in kept.items():
            check_property(name, value)
        return self._step(lambda evolution: self._set_properties(evolution, kept))

    def unset_properties(self, names: str | Sequence[str]) -> Self:
        """Removes properties of the table. Names that are not set are ignored."""
        removed = texts_of(names, "unset_properties")
        for name in removed:
            check_name(name)
        return self._step(lambda evolution: self._unset_properties(evolution, removed))

    def upgrade(self, format_version: int) -> Self:
        """Upgrades the table to a version of Iceberg's format, which cannot be undone.

        Version 3 stores deleted rows in deletion vectors, and gives each row an id.

        Args:
            format_version: 2 or 3, and not less than the table's version.
        """
        number = checked_version(format_version, "upgrade")

        def step(evolution: ice.Evolution) -> None:
            if number < self._metadata.format_version:
                raise InvalidArgumentError(
                    f"upgrade: the table has format version {self._metadata.format_version}, which "
                    f"cannot be changed to {number}"
                )
            if number >= ice.ROW_ID_VERSION:
                check_lineage_names(evolution.schema, "upgrade")
            evolution.upgrade(number)

        return self._step(step)

    def set_comment(self, text: str | None) -> Self:
        """Describes the table; ``None`` removes the comment."""
        checked = _text_or_none(text, "set_comment")
        if checked is None:
            return self._step(lambda e: self._unset_properties(e, [COMMENT]))
        return self._step(lambda e: self._set_properties(e, {COMMENT: checked}))

    def store_claims(self, properties: Mapping[str, str | None]) -> Self:
        """Stores claims in the form of :mod:`nimblepy.table.claims.store`, for ``describe``.

        Args:
            properties: maps each property to its text; ``None`` removes the property.
        """
        kept = {name: text for name, text in properties.items() if text is not None}
        removed = [name for name, text in properties.items() if text is None]

        def step(evolution: ice.Evolution) -> None:
            self._set_properties(evolution, kept)
            self._unset_properties(evolution, removed)

        return self._step(step)

    @property
    def base(self) -> ice.Metadata:
        """The version of the table that the block changes."""
        return self._metadata

    def _set_properties(self, evolution: ice.Evolution, properties: Mapping[str, str]) -> None:
        self._changed_properties |= properties.keys()
        evolution.set_properties(properties)

    def _unset_properties(self, evolution: ice.Evolution, names: Sequence[str]) -> None:
        self._changed_properties |= set(names)
        evolution.unset_properties(names)

    # ------------------------------------------------------------------ the commit

    def _step(self, step: _Step) -> Self:
        _apply(step, self._trial)
        self._steps.append(step)
        self._pending = True
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pending = False
        if exc_type is None and self._steps:
            self._commit()

    @property
    def _shown(self) -> str:
        """The names of the called methods."""
        return ", ".join(step.__qualname__.split(".")[1] for step in self._steps) or "no change"

    def __repr__(self) -> str:
        state = "not committed" if self._pending else "done"
        name = ".".join(self._metadata.name)
        return f"<nimblepy.Alter of {name!r}: {self._shown}; {state}>"

    def __del__(self) -> None:
        if getattr(self, "_pending", False):
            warnings.warn(
                f"{'.'.join(self._metadata.name)}: alter() was not committed: {self._shown}; "
                "write: with table.alter() as a: ...",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    def _commit(self) -> None:
        tried: list[ice.Evolution] = []

        def attempt(newest: ice.Metadata) -> ice.Metadata:
            tried.append(self._trial if newest is self._metadata else self._on(newest))
            check_columns(tried[-1].schema, tried[-1].properties)
            return tried[-1].commit()

        newest = swapped(
            self._metadata,
            self._table.reload,
            attempt,
            lambda newest: any(evolution.is_made(newest) for evolution in tried),
            operation=f"alter ({self._shown})",
        )
        self._table.show(newest)

    def _on(self, newest: ice.Metadata) -> ice.Evolution:
        """Applies all steps again, to the table that another commit left."""
        changed = self._changed_meanwhile(newest)
        if changed is not None:
            raise self._conflict(newest, changed, "properties")
        evolution = ice.Evolution(newest)
        try:
            for step in self._steps:
                _apply(step, evolution)
        except InvalidArgumentError as error:
            conflict = f"another alter() was committed first and conflicts with this one: {error}"
            raise self._conflict(newest, conflict, "schema") from error
        return evolution

    def _changed_meanwhile(self, newest: ice.Metadata) -> str | None:
        """Describes a property or documentation that both this block and another commit changed."""
        read, wanted, now = self._metadata.properties, self._trial.properties, newest.properties
        for name in sorted(self._changed_properties):
            if now.get(name) not in (read.get(name), wanted.get(name)):
                return f"another commit changed property {name!r} to {show(now.get(name))}"
        docs, wanted_docs, docs_now = self._metadata.docs(), self._trial.docs, newest.docs()
        for number in sorted(self._changed_docs):
            if docs_now.get(number) not in (docs.get(number), wanted_docs.get(number)):
                column = newest.column_name(number)
                return f"another commit changed the documentation of column {column!r}"
        return None

    def _conflict(self, newest: ice.Metadata, message: str, kind: str) -> ConflictError:
        base, winner = self._metadata.head(), newest.head()
        return ConflictError(
            f"{'.'.join(newest.name)}: {message}",
            kind=kind,
            base=None if base is None else base.id,
            winner=None if winner is None else winner.id,
        )


def _apply(step: _Step, evolution: ice.Evolution) -> None:
    try:
        step(evolution)
    except ValueError as error:
        if isinstance(error, InvalidArgumentError):
            raise
        raise InvalidArgumentError(f"alter: {error}") from error


def _text_or_none(text: object, method: str) -> str | None:
    if text is not None and (not isinstance(text, str) or not text.strip()):
        raise InvalidArgumentError(f"{method}: expected text, or None to remove it, got {text!r}")
    return text


def _path(evolution: ice.Evolution, name: ColumnName) -> Path:
    return resolve_column(evolution.schema, name).path


def _new_path(schema: pa.Schema, name: ColumnName) -> Path:
    """Returns the path of a new column: dots lead into existing structs."""
    path = tuple(name.split(".")) if isinstance(name, str) else tuple(texts_of(name, "add_column"))
    if not path or not all(isinstance(part, str) and part for part in path):
        raise InvalidArgumentError(f"add_column: expected a name, got {name!r}")
    if len(path) > 1:
        parent = resolve_column(schema, path[:-1])
        if not pa.types.is_struct(parent.type):
            raise InvalidArgumentError(
                f"add_column {name!r}: {show_path(path[:-1])!r} is {parent.type}, not a struct"
            )
    return path


def _default(given: pa.DataType, kind: pa.DataType, default: Any, path: Path) -> Any:
    """Returns the default in the form of the metadata.

    Also checks that the given type can represent it.
    """
    if default is None:
        return None
    if pa.types.is_nested(kind):
        raise InvalidArgumentError(
            f"add_column {show_path(path)!r}: nested columns can only have the default null"
        )
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        raise InvalidArgumentError(
            f"add_column {show_path(path)!r}: a column of {kind} can only have the default null"
        )
    value = default
    for column_type in (given, kind):
        value, fits = exact_key(show_path(path), column_type, value, "default")
        if not fits:
            raise InvalidArgumentError(
                f"add_column: default {show(default)} cannot be converted to column "
                f"{show_path(path)!r} ({given})"
            )
    if pa.types.is_floating(kind) and not math.isfinite(value.as_py()):
        raise InvalidArgumentError(
            f"add_column {show_path(path)!r}: default {show(default)} is not finite; the metadata "
            "of a table, which is JSON, cannot store it"
        )
    if pa.types.is_floating(kind) and value.as_py() == 0:
        # Keys do not distinguish zeros, but values do.
        plain = default.as_py() if isinstance(default, pa.Scalar) else default
        return math.copysign(0.0, float(plain))
    return internal_value(kind, value)


def _move(evolution: ice.Evolution, path: Path, after: str | None, first: bool) -> None:
    if first:
        evolution.move_first(path)
    elif after is not None:
        other = (*path[:-1], after) if len(path) > 1 and "." not in after else after
        behind = resolve_column(evolution.schema, other).path
        if behind[:-1] != path[:-1]:
            raise InvalidArgumentError(
                f"column {show_path(path)!r} cannot be after {after!r}, which is in another struct"
            )
        if behind == path:
            raise InvalidArgumentError(f"column {show_path(path)!r} cannot be after itself")
        evolution.move_after(path, behind)


def _drop(evolution: ice.Evolution, name: ColumnName) -> None:
    path = _path(evolution, name)
    schema = evolution.schema
    held = {
        "the primary key": evolution.primary_key_ids(),
        "the cluster key": evolution.cluster_ids(),
        "a partition spec": evolution.partition_ids(),
        "an old partition spec of the table": evolution.old_partition_ids(),
        "the layout": layout_ids(evolution.properties),
    }
    inside = {field_id_at(schema, p) for p in column_paths(schema) if p[: len(path)] == path}
    for what, numbers in held.items():
        if inside & numbers:
            raise InvalidArgumentError(
                f"drop_column: {show_path(path)!r} is part of {what}, which needs it"
            )
    siblings = len(schema) if len(path) == 1 else resolve_column(schema, path[:-1]).type.num_fields
    if siblings == 1:
        raise InvalidArgumentError(f"drop_column: {show_path(path)!r} is the only column")
    evolution.drop_column(path)
    evolution.unset_properties(f"{CLAIMS_PREFIX}{number}" for number in inside)
