"""Reads a source with another schema, for example a file older than the table's current schema.

Columns are matched by field id if the source has field ids, otherwise by name. In the source, a
column may have another name, another position or a narrower type, or it may be missing. Searches
use the source's indexes. If the source has no index on a key, the search reads all its keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy import _core
from nimblepy.errors import IndexUnavailableError, InvalidArgumentError
from nimblepy.expr.filter import Filter, make_filter
from nimblepy.expr.nodes import (
    And,
    Compare,
    Const,
    In,
    IsNull,
    IsValid,
    Node,
    Not,
    Opaque,
    Or,
    StartsWith,
    all_of,
)
from nimblepy.files.asof import SortedCopy
from nimblepy.rows.arguments import Projected
from nimblepy.rows.asof import AsofKeys, nearest_values
from nimblepy.rows.compiled import AsofIndex, Compiled, KeyIndex, RowForm, RowsOfFile, SingleRows
from nimblepy.rows.key_bounds import typed_bound
from nimblepy.rows.keys import key_columns
from nimblepy.rows.nearest import NearestPart, NearestRows, vector_type
from nimblepy.rows.passing import passing_rows
from nimblepy.rows.plan import LayoutNode, Plan
from nimblepy.rows.request import (
    KeyRange,
    Keys,
    Ordered,
    Prefix,
    Request,
    Where,
    leads,
    leads_to,
)
from nimblepy.rows.rowset import RowSet
from nimblepy.rows.search import search_keys, search_ordered
from nimblepy.rows.source import OnKeys, Reader, RowSource
from nimblepy.schema.columns import Column, key_name, resolve_column
from nimblepy.schema.field_ids import has_field_ids, id_difference, match_by_id, match_by_name
from nimblepy.schema.key_values import exact_key, exact_keys
from nimblepy.schema.names import ColumnName, Path, output_name, show_names
from nimblepy.schema.plain import plain_array, plain_type
from nimblepy.schema.reshape import Convert, Rules, UnfitError, converter, repeated
from nimblepy.schema.types import IndexInfo, IoStats, SortKey, agrees, column_of

# Returns the value of a column that the source does not have: (field, place for messages).
MissingValue = Callable[[pa.Field, str], pa.Scalar]


@dataclass(frozen=True, slots=True, eq=False)
class _Output:
    """Produces one column of the result, from a column of the source or from a constant."""

    field: pa.Field
    path: Path | None
    have: pa.DataType
    convert: Convert | None
    value: pa.Scalar | None

    def array(self, columns: dict[Path, pa.Array], rows: int) -> pa.Array:
        if self.path is None:
            assert self.value is not None
            return repeated(self.value, rows)
        array = columns[self.path]
        if self.convert is None:
            return array
        try:
            return self.convert(array)
        except UnfitError as error:
            raise InvalidArgumentError(error.message(f"column {self.field.name!r}")) from error


def no_value(field: pa.Field, place: str) -> pa.Scalar:
    """Returns null as the value of a missing column."""
    return pa.scalar(None, field.type)


def _field_of(steps: list[int], convert: Convert | None) -> Convert:
    """Returns a function that converts structs, and returns one of their fields."""
    return lambda array: pc.struct_field(array if convert is None else convert(array), steps)


def _fields_of(field: pa.Field) -> list[pa.Field]:
    """Returns the fields of a struct; none for other types."""
    return [*field.type] if pt.is_struct(field.type) else []


def fits_as_it_is(have: pa.Schema, wanted: pa.Schema) -> bool:
    """Returns whether both schemas have the same types and field ids at every depth."""
    return have.equals(wanted) and id_difference(have, wanted) is None


class MappedRows(RowSource):
    """Presents a source with another schema.

    Args:
        schema: the schema of the result.
        keys: keys that can be searched even if the source has no index on them. The first one is
            the cluster key.
        missing: returns the value of a column that the source does not have.
        have: the source's schema with field ids, if the source does not store field ids.
        equal: further keys that can be searched for equality even if the source has no index.
    """

    def __init__(
        self,
        child: RowSource,
        schema: pa.Schema,
        keys: Sequence[Sequence[SortKey]] = (),
        missing: MissingValue = no_value,
        have: pa.Schema | None = None,
        equal: Sequence[Sequence[SortKey]] = (),
    ) -> None:
        super().__init__()
        self.child = child
        self._schema = schema
        self._keys = [tuple(key) for key in keys if key]
        self._equal = [tuple(key) for key in equal]
        self._missing = missing
        self._have = child.schema if have is None else have
        self._match = match_by_id if has_field_ids(self._have) else match_by_name
        # This schema's names of columns of the source.
        self._names_here: dict[ColumnName, ColumnName | None] = {}
        self._outputs: dict[Projected, tuple[tuple[_Output, ...], pa.Schema]] = {}
        self._searched: dict[tuple[ColumnName, ...], tuple[ColumnName, ...] | None] = {}
        # Used for as-of searches for which the source has no index.
        self._sorted_copies: dict[tuple[tuple[SortKey, ...], ColumnName | None], SortedCopy] = {}

    # ------------------------------------------------------------------ properties

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def num_rows(self) -> int:
        return self.child.num_rows

    @property
    def size_bytes(self) -> int:
        return self.child.size_bytes

    @property
    def metadata(self) -> dict[str, bytes]:
        return self.child.metadata

    @property
    def cluster_by(self) -> list[SortKey]:
        return list(self._keys[0]) if self._keys else []

    @property
    def unique(self) -> bool:
        return self.child.unique and self._in_child(self.cluster_by) == self.child.cluster_by

    @property
    def indexes(self) -> list[IndexInfo]:
        """The source's indexes whose columns are all in this schema, with this schema's names."""
        indexes = []
        for info in self.child.indexes:
            names = [self._name_here(key.column) for key in info.columns]
            keys = [
                replace(key, column=name)
                for key, name in zip(info.columns, names, strict=True)
                if name is not None
            ]
            if len(keys) == len(names):
                indexes.append(replace(info, columns=tuple(keys)))
        return indexes

    def _name_here(self, in_child: ColumnName) -> ColumnName | None:
        """Returns this schema's name of a column of the source; ``None`` if it does not have it."""
        if in_child not in self._names_here:
            self._names_here[in_child] = self._find_here(in_child)
        return self._names_here[in_child]

    def _find_here(self, in_child: ColumnName) -> ColumnName | None:
        have: list[pa.Field] = list(self._have)
        fields: list[pa.Field] = list(self._schema)
        path: list[str] = []
        try:
            steps = resolve_column(self.child.schema, in_child).steps
        except InvalidArgumentError:  # a column that the source does not show
            return None
        for step in steps:
            at = self._match(have[step], fields)
            if at is None:
                return None
            path.append(fields[at].name)
            have, fields = _fields_of(have[step]), _fields_of(fields[at])
        return key_name(self._schema, resolve_column(self._schema, tuple(path)))

    @property
    def io_stats(self) -> IoStats:
        return self.child.io_stats

    def reset_io_stats(self) -> None:
        self.child.reset_io_stats()

    def layout(self) -> LayoutNode:
        return self.child.layout()

    def verify(self) -> None:
        self.child.verify()

    def close(self) -> None:
        self.child.close()

    # ------------------------------------------------------------------ columns

    def projected(self, columns: Projected) -> pa.Schema:
        return self._output(columns)[1]

    def _output(self, columns: Projected) -> tuple[tuple[_Output, ...], pa.Schema]:
        outputs = self._outputs.get(columns)
        if outputs is None:
            names = [(name,) for name in self._schema.names] if columns is None else columns
            new_outputs = tuple(self._find(name) for name in names)
            outputs = self._outputs[columns] = (
                new_outputs,
                pa.schema([item.field for item in new_outputs]),
            )
        return outputs

    def _find(self, name: ColumnName) -> _Output:
        column = resolve_column(self._schema, name)
        top = self._schema.field(column.steps[0])
        field = top if len(column.steps) == 1 else pa.field(output_name(name), column.type)
        path, stored = self._path_in_child(column)
        place = f"column {column}"
        if stored is None:
            return self._find_missing(column, field, place)
        rules = Rules(self._match, self._missing, _as_stored)
        convert = converter(stored.type, column.type, rules, place)
        return _Output(field, path, stored.type, convert, None)

    def _find_missing(self, column: Column, field: pa.Field, place: str) -> _Output:
        """Produces a column that the source does not have. It is null where a struct above is."""
        fields = [self._schema.field(column.steps[0])]
        for step in column.steps[1:]:
            fields.append(fields[-1].type.field(step))
        value = self._missing(fields[-1], place)
        if not value.is_valid:
            return _Output(field, None, column.type, None, value)
        for depth in range(len(column.steps) - 1, 0, -1):
            above = resolve_column(self._schema, column.path[:depth])
            path, stored = self._path_in_child(above)
            if stored is None:
                continue
            rules = Rules(self._match, self._missing, _as_stored)
            whole = converter(stored.type, above.type, rules, place)
            convert = _field_of(list(column.steps[depth:]), whole)
            return _Output(field, path, stored.type, convert, None)
        if len(fields) > 1:
            value = pc.struct_field(self._missing(fields[0], place), list(column.steps[1:]))
        return _Output(field, None, column.type, None, value)

    def can_search(self, name: ColumnName) -> bool:
        """Returns whether an index of the source can search a column: see `_names_in_child`."""
        return self._names_in_child((name,)) is not None

    def _path_in_child(self, column: Column) -> tuple[Path, pa.Field | None]:
        """Returns the column's path and field in the source; ``((), None)`` if it is missing."""
        fields: list[pa.Field] = list(self._have)
        field, stored = self._schema.field(column.steps[0]), None
        path: list[str] = []
        for depth in range(len(column.steps)):
            at = self._match(field, fields)
            if at is None:
                return (), None
            stored = fields[at]
            path.append(stored.name)
            if depth + 1 < len(column.steps):
                if not pt.is_struct(stored.type):
                    return (), None
                field = field.type.field(column.steps[depth + 1])
                fields = [stored.type.field(i) for i in range(stored.type.num_fields)]
        return tuple(path), stored

    def _child_columns(self, outputs: Sequence[_Output]) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(o.path for o in outputs if o.path is not None))

    def _batch(
        self, found: pa.RecordBatch, outputs: Sequence[_Output], schema: pa.Schema
    ) -> pa.RecordBatch:
        """Converts a batch with columns of the source to the requested columns."""
        if not outputs:
            return found
        columns = dict(zip(self._child_columns(outputs), found.columns, strict=True))
        arrays = [output.array(columns, found.num_rows) for output in outputs]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    # ------------------------------------------------------------------ finding

    def all_rows(self) -> RowSet:
        return self.child.all_rows()

    def index_keys(self, on: OnKeys, *, ordered: bool) -> tuple[SortKey, ...]:
        keys = tuple(key.column for key in self.cluster_by) if on is None else on
        names = tuple(map(column_of, keys))
        mapped = self._names_in_child(names)
        if mapped is not None:
            child_keys = tuple(
                replace(key, column=name) if isinstance(key, SortKey) else name
                for key, name in zip(keys, mapped, strict=True)
            )
            try:
                sort_keys = self.child.index_keys(child_keys, ordered=ordered)
            except IndexUnavailableError:
                pass
            else:
                # If a later column of the index was dropped, return only the columns before it.
                back = dict(zip(mapped, names, strict=True))
                leading: list[SortKey] = []
                for item in sort_keys:
                    name = back.get(item.column) or self._name_here(item.column)
                    if name is None:
                        break
                    leading.append(replace(item, column=name))
                return tuple(leading)
        for key in self._keys:
            if agrees(keys, key) if ordered else leads(names, key):
                return key
        for key in () if ordered else self._equal:
            if {*names} == {item.column for item in key}:
                return key
        if not names:
            raise IndexUnavailableError("these rows have no cluster key; pass on= or scan")
        shown = show_names(names)
        raise IndexUnavailableError(
            f"no index on ({shown}) in a Parquet file, or in a file of an earlier schema; in a "
            "table, add_index() adds one"
        )

    def _names_in_child(self, names: Sequence[ColumnName]) -> tuple[ColumnName, ...] | None:
        """Returns the columns' names in the source; ``None`` if one of them cannot be searched.

        A column cannot be searched if it is missing, or if it needs a conversion other than between
        integer types.
        """
        asked = tuple(names)
        if asked not in self._searched:
            self._searched[asked] = self._find_names(asked)
        return self._searched[asked]

    def _find_names(self, names: tuple[ColumnName, ...]) -> tuple[ColumnName, ...] | None:
        child_names: list[ColumnName] = []
        for name in names:
            output = self._output((name,))[0][0]
            if output.path is None:
                return None
            column = resolve_column(self.child.schema, output.path)
            if output.convert is not None and not _same_integers(column.type, output.field.type):
                return None
            child_names.append(key_name(self.child.schema, column))
        return tuple(child_names)

    def compiled(self, reader: Compiled[Reader]) -> Reader | None:
        """Returns the source's reader, if keys and values do not need a conversion."""
        made: Any = None
        try:
            match reader:
                case KeyIndex(names):
                    made = self._key_index(names)
                case AsofIndex():
                    made = self._asof_index(reader)
                case SingleRows(columns, on):
                    made = self._row_reader(RowsOfFile(columns, on))
                case RowsOfFile(form=None):
                    made = self._row_reader(reader)
        except IndexUnavailableError:
            return None
        return made  # type: ignore[no-any-return]

    def _key_index(
        self, names: tuple[ColumnName, ...]
    ) -> tuple[_core.Index, tuple[SortKey, ...]] | None:
        mapped = self._names_in_child(names)
        opened = None if mapped is None else self.child.compiled(KeyIndex(mapped))
        if mapped is None or opened is None:
            return None
        if mapped == names:
            return opened
        back = dict(zip(mapped, names, strict=True))
        return opened[0], tuple(replace(key, column=back[key.column]) for key in opened[1])

    def _asof_index(
        self, asked: AsofIndex
    ) -> tuple[_core.Index, tuple[SortKey, ...], tuple[int, ...] | None] | None:
        columns = (*asked.by, asked.on)
        known_columns = () if asked.known is None else (asked.known,)
        mapped = self._names_in_child((*columns, *known_columns))
        if mapped is None or any(self._output((name,))[0][0].convert for name in known_columns):
            return None
        width = len(asked.by)
        reader = AsofIndex(
            tuple(mapped[:width]), mapped[width], mapped[-1] if known_columns else None
        )
        opened = self.child.compiled(reader)
        if opened is None:
            return None
        index, order, path = opened
        back = dict(zip(mapped, columns, strict=False))
        return index, tuple(replace(key, column=back[key.column]) for key in order), path

    def _row_reader(self, reader: RowsOfFile) -> _core.PointReader | None:
        outputs, schema = self._output(reader.columns)
        child_columns = self._child_columns(outputs)
        names = [output.field.name for output in outputs if output.path is not None]
        if len(child_columns) != len(names) or not all(map(_is_plain, outputs)):
            return None
        key_names = self.on_columns(reader.on)
        if key_names is None:
            key_names = tuple(key.column for key in self.cluster_by)
        keys = self._names_in_child(key_names)
        if not keys or any(self._output((name,))[0][0].convert for name in key_names):
            return None
        blank = {output.field.name: _python_value(output) for output in outputs}
        if len(blank) != len(schema):
            return None
        form = RowForm(names, blank)
        return self.child.compiled(RowsOfFile(child_columns, tuple(keys), reader.deleted, form))

    def _in_child(self, keys: Sequence[SortKey]) -> list[SortKey] | None:
        names = self._names_in_child([key.column for key in keys])
        if names is None:
            return None
        return [replace(key, column=name) for key, name in zip(keys, names, strict=True)]

    def find(self, request: Request, *, limit: int | None = None, reverse: bool = False) -> RowSet:
        if isinstance(request, Where):
            pruning = self._where(request) or Where(self._pruning(request.filter), request.rows)
            return self.child.find(pruning)
        child_request = self.in_child(request)
        if child_request is not None:
            return self.child.find(child_request, limit=limit, reverse=reverse)
        if isinstance(request, Keys):
            return search_keys(request, self._read_all).slice(0, limit)
        order = next((k for k in self._keys if agrees(request.keys, k)), request.keys)
        rows = search_ordered(request, order, self._read_all)
        return (rows.backwards() if reverse else rows).slice(0, limit)

    def _read_all(self, names: tuple[ColumnName, ...]) -> pa.Table:
        return self.read(self.all_rows(), names)

    @overload
    def in_child(self, request: Keys) -> Keys | None: ...
    @overload
    def in_child(self, request: Keys | Ordered) -> Keys | Ordered | None: ...
    def in_child(self, request: Keys | Ordered) -> Keys | Ordered | None:
        """Translates a request to the source's names and types; ``None`` if no index can answer."""
        names = self._names_in_child(request.columns)
        if names is None:
            return None
        if isinstance(request, Keys):
            try:
                sort_keys = self.child.index_keys(names, ordered=False)
            except IndexUnavailableError:
                return None
            return self._asked_keys(request, names, sort_keys)
        keys = tuple(replace(k, column=n) for k, n in zip(request.keys, names, strict=True))
        if request.nothing:
            return None
        try:
            self.child.index_keys(keys, ordered=True)
        except IndexUnavailableError:
            return None
        columns = key_columns(self.child.schema, keys)
        if isinstance(request, KeyRange):
            lower = typed_bound(
                request.lower.values or None, request.lower.inclusive, columns, lower=True
            )
            upper = typed_bound(
                request.upper.values or None, request.upper.inclusive, columns, lower=False
            )
            return None if lower is None or upper is None else KeyRange(keys, lower, upper)
        values = list(request.values)
        for i, kind in enumerate(columns.types[: len(values) - request.starts_with]):
            exact, _ = exact_key(columns.names[i], kind, values[i])
            if exact is None:
                return None
            values[i] = exact
        return Prefix(keys, tuple(values), request.starts_with)

    def _asked_keys(
        self, request: Keys, names: tuple[ColumnName, ...], found: Sequence[SortKey]
    ) -> Keys | None:
        if request.between is not None and not leads(names, self.child.cluster_by):
            return None
        usable = request.usable
        values = []
        equal_names = names[: len(request.names)]
        for name, array in zip(equal_names, request.values, strict=True):
            kind = resolve_column(self.child.schema, name).value_type
            exact, bad = exact_keys(output_name(name), kind, array)
            if bad is not None and bad.any():
                usable = ~bad if usable is None else usable & ~bad
            values.append(exact)
        if request.between is not None:
            assert request.lower is not None
            kind = resolve_column(self.child.schema, names[-1]).value_type
            if kind != request.lower.type:
                return None
        between = None if request.between is None else names[-1]
        return replace(
            request, names=equal_names, values=tuple(values), usable=usable, between=between
        )

    # ------------------------------------------------------------------ as-of searches

    def asof_keys(self, by: tuple[ColumnName, ...], on: ColumnName) -> tuple[SortKey, ...]:
        mapped = self._names_in_child((*by, on))
        if mapped is not None:
            try:
                order = self.child.asof_keys(tuple(mapped[:-1]), mapped[-1])
            except IndexUnavailableError:
                pass
            else:
                back = dict(zip(mapped, (*by, on), strict=True))
                return tuple(replace(key, column=back[key.column]) for key in order)
        for key in self._keys:
            if leads_to(key, by, on):
                return key[: len(by) + 1]
        shown = show_names((*by, on))
        have = dict.fromkeys([*(info.columns for info in self.indexes), *self._keys])
        listed = ", ".join(f"({', '.join(map(str, key))})" for key in have) or "none"
        raise IndexUnavailableError(
            f"no index begins with ({shown}) in a file of another schema; indexes: {listed}"
        )

    def vector_columns(self) -> tuple[ColumnName, ...]:
        inner = self.child.vector_columns()
        names: list[ColumnName] = []
        for field in self.schema:
            if vector_type(field.type) is not None:
                mapped = self._names_in_child((field.name,))
                if mapped is not None and mapped[0] in inner:
                    names.append(field.name)
        return tuple(names)

    def vector_metrics(self, column: ColumnName) -> frozenset[str]:
        mapped = self._names_in_child((column,))
        return frozenset() if mapped is None else self.child.vector_metrics(mapped[0])

    def nearest_parts(
        self, request: NearestRows, rows: RowSet | None = None
    ) -> Iterator[NearestPart]:
        output = self._output((request.column,))[0][0]
        if output.path is None:
            return iter(())  # the rows have no vectors
        mapped = self._names_in_child((request.column,))
        if mapped is None:
            raise InvalidArgumentError(
                f"nearest: column {request.column!r} cannot be searched in a file. If the file is "
                'Parquet, convert("nimble") rewrites the table as nimble files. If the file has '
                "another type of the column, compact(where_needed=False) rewrites it"
            )
        if rows is None:
            rows = self.all_rows() if request.within is None else self.find(request.within)
        if request.filter is not None:
            rows = passing_rows(self, Where(request.filter, rows))
        asked = replace(request, column=mapped[0], filter=None, within=None)
        return self.child.nearest_parts(asked, rows)

    def find_asof(self, keys: AsofKeys, deleted: _core.RowBitmap | None = None) -> RowSet:
        mapped = self._mapped_asof(keys)
        if mapped is not None:
            return self.child.find_asof(mapped, deleted)
        order = self.asof_keys(keys.by, keys.on)
        cache_key = order, keys.known
        copy = self._sorted_copies.get(cache_key)
        if copy is None or copy.deleted is not deleted:
            copy = self._sorted_copies[cache_key] = SortedCopy(self, keys, order, deleted)
        return copy.find_asof(keys)

    def _mapped_asof(self, keys: AsofKeys) -> AsofKeys | None:
        """Translates keys to the source's names and types; ``None`` if no index can find them."""
        columns = keys.columns if keys.known is None else (*keys.columns, keys.known)
        names = self._names_in_child(columns)
        if names is None:
            return None
        by, on, width = tuple(names[: len(keys.by)]), names[len(keys.by)], len(keys.columns)
        try:
            self.child.asof_keys(by, on)
        except IndexUnavailableError:
            return None
        types = [resolve_column(self.child.schema, name).value_type for name in names]
        usable = np.ones(len(keys), dtype=np.bool_) if keys.usable is None else keys.usable.copy()
        values = []
        for name, kind, array in zip(by, types, keys.values, strict=False):
            exact, bad = exact_keys(output_name(name), kind, array)
            if bad is not None:
                usable &= ~bad
            values.append(exact)
        at = nearest_values(keys.at, types[width - 1], below=keys.backward)
        exclusive, limits = keys.exclusive, None
        if exclusive is not None and at.exact is not None:
            exclusive = exclusive & at.exact
        if at.usable is not None:
            usable &= at.usable
        if keys.limits is not None:
            below = nearest_values(keys.limits, types[-1], below=True)
            limits = below.values
            if below.usable is not None:
                usable &= below.usable
        return AsofKeys(
            by=by,
            on=on,
            values=tuple(values),
            at=at.values,
            backward=keys.backward,
            usable=usable,
            exclusive=exclusive,
            known=None if keys.known is None else names[-1],
            limits=limits,
        )

    # ------------------------------------------------------------------ filters

    def _where(self, where: Where) -> Where | None:
        """Translates a filter to the source's columns; ``None`` if that is not possible."""
        if where.filter is None:
            return where
        node = self._translated(where.filter.node)
        if node is None:
            return None
        return Where(make_filter(node, self.child.schema), where.rows, where.limit)

    def _pruning(self, filter: Filter | None) -> Filter | None:
        """Translates the conjuncts that can be translated; ``None`` if none of them can.

        The result may pass more rows than ``filter``.
        """
        assert filter is not None
        translated = [node for c in filter.conjuncts if (node := self._translated(c)) is not None]
        return make_filter(all_of(*translated), self.child.schema) if translated else None

    def _translated(self, node: Node) -> Node | None:
        match node:
            case Const():
                return node
            case And(args) | Or(args):
                parts = [self._translated(arg) for arg in args]
                done = tuple(part for part in parts if part is not None)
                return type(node)(done) if len(done) == len(parts) else None
            case Not(arg):
                inner = self._translated(arg)
                return None if inner is None else Not(inner)
            case Opaque(_, columns, implies):
                if all(self._is_itself(path) for path in columns):
                    inner = None if implies is None else self._translated(implies)
                    return replace(node, implies=inner)
                return None
            case Compare() | In() | StartsWith() | IsNull() | IsValid():
                column = self._column(node.column)
                return None if column is None else replace(node, column=column)
        return None

    def _column(self, column: Column) -> Column | None:
        output = self._output((column.path,))[0][0]
        if output.path is None or output.convert is not None:
            return None
        stored = resolve_column(self.child.schema, output.path)
        return stored if stored.type.equals(column.type) else None

    def _is_itself(self, path: Path) -> bool:
        stored = self._column(resolve_column(self._schema, path))
        return stored is not None and stored.path == path

    # ------------------------------------------------------------------ reading

    def read(self, rows: RowSet, columns: Projected) -> pa.Table:
        outputs, schema = self._output(columns)
        child_columns = self._child_columns(outputs)
        if not child_columns:
            values = [output.array({}, rows.num_rows) for output in outputs]
            if not outputs:
                return self.child.read(rows, ())
            return pa.Table.from_arrays(values, schema=schema)
        table = self.child.read(rows, child_columns)
        batches = [self._batch(batch, outputs, schema) for batch in table.to_batches()]
        return pa.Table.from_batches(batches, schema=schema)

    def scan_batches(
        self, where: Where, columns: Projected, *, batch_rows: int, threads: int
    ) -> Iterator[pa.RecordBatch]:
        outputs, schema = self._output(columns)
        child_where = self._where(where)
        if child_where is not None:
            child_columns = self._child_columns(outputs)
            for batch in self.child.scan_batches(
                child_where, child_columns, batch_rows=batch_rows, threads=threads
            ):
                yield self._batch(batch, outputs, schema)
            return
        assert where.filter is not None
        tops = tuple(dict.fromkeys((path[0],) for path in where.filter.columns))
        left = self.find(where)
        for at in range(0, left.num_rows, batch_rows):
            part = left.slice(at, at + batch_rows).expand()
            inputs = self.read(part, tops).combine_chunks().to_batches()
            mask = where.filter.mask(inputs[0]) if inputs else None
            if mask is None:
                continue
            passing = part.entries(np.flatnonzero(mask.to_numpy(zero_copy_only=False)))
            if not passing.num_rows:
                continue
            table = self.read(passing, columns)
            yield from table.combine_chunks().to_batches()

    def count_passing(self, where: Where, *, threads: int) -> int:
        child_where = self._where(where)
        if child_where is not None:
            return self.child.count_passing(child_where, threads=threads)
        return super().count_passing(where, threads=threads)

    # ------------------------------------------------------------------ explaining

    def explain_request(self, request: Request, columns: Projected) -> Plan:
        outputs, _ = self._output(columns)
        child_columns = self._child_columns(outputs)
        if isinstance(request, Where):
            pruning = self._where(request) or Where(self._pruning(request.filter), request.rows)
            return self.child.explain_request(pruning, child_columns)
        child_request = self.in_child(request)
        if child_request is not None:
            return self.child.explain_request(child_request, child_columns)
        keys = tuple(o.path for o in self._output(request.columns)[0] if o.path is not None)
        scan_plan = self.child.explain_request(Where(None, self.all_rows()), keys)
        return Plan(
            text="no index: reads every key",
            children=(scan_plan,),
            reads=scan_plan.reads,
            bytes=scan_plan.bytes,
        )


def _as_stored(have: pa.DataType, wanted: pa.DataType, place: str) -> Convert:
    """Returns a function that converts a stored type to the schema's wider type.

    Raises:
        InvalidArgumentError: the types are not compatible. The function raises it for values that
            do not fit.
    """
    plain = plain_type(have)
    storage = plain_type(wanted)
    if not (
        (pt.is_integer(plain) and pt.is_integer(storage))
        or (pt.is_floating(plain) and pt.is_floating(storage))
        or (pt.is_decimal(plain) and pt.is_decimal(storage))
        or _form(plain) == _form(storage)
    ):
        raise InvalidArgumentError(f"{place} is {have} in a file and cannot be read as {wanted}")

    def convert(array: pa.Array) -> pa.Array:
        try:
            cast = plain_array(array).cast(storage)
        except pa.ArrowInvalid as error:
            raise InvalidArgumentError(f"{place}: {have} to {wanted}: {error}") from error
        return wanted.wrap_array(cast) if isinstance(wanted, pa.BaseExtensionType) else cast

    return convert


def _python_value(output: _Output) -> Any:
    """Returns the value of a column that the file does not have."""
    if output.value is None:
        return None
    array = pa.array([output.value.as_py()], output.value.type)
    if isinstance(output.field.type, pa.BaseExtensionType):
        array = output.field.type.wrap_array(array)
    return array[0].as_py()


def _is_plain(output: _Output) -> bool:
    """Returns whether a row reader can produce the column without a conversion.

    That is the case if its Python values are the same in the source, or if it is an immutable
    constant.
    """
    have, target = output.have, output.field.type
    if output.value is not None:
        return not (output.value.is_valid and pt.is_nested(target))
    if output.convert is None:
        return True
    if pt.is_decimal(have) and pt.is_decimal(target):
        return bool(have.scale == target.scale and have.precision <= target.precision)
    alike = pt.is_signed_integer, pt.is_unsigned_integer, pt.is_floating
    same = any(is_one(have) and is_one(target) for is_one in alike)
    return same and bool(have.bit_width <= target.bit_width)


def _form(kind: pa.DataType) -> str:
    """Returns a name that is the same for types that store the same values differently."""
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
        return "text"
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind):
        return "binary"
    if pt.is_fixed_size_binary(kind):
        return "binary"
    if pt.is_date(kind):
        return "date"
    if pt.is_time(kind):
        return "time"
    if pt.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "zoned timestamp"
    return str(kind)


def _same_integers(have: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(pt.is_integer(have) and pt.is_integer(wanted))
