"""Converts tabular input of any kind to record batches."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.input.foreign import CountedReader, is_paths, open_files
from nimblepy.input.python_values import typed_column
from nimblepy.input.texts import Typed
from nimblepy.schema.conform import conform
from nimblepy.schema.convert import stored
from nimblepy.schema.kinds import family, is_text
from nimblepy.schema.protocols import Tabular
from nimblepy.schema.values import is_nan, is_null, show

# Rows per batch for the core. Large enough to amortize a call, small enough for steady progress.
BATCH_ROWS = 131_072
# Marks the end of an iterator, because None may be an item.
_END = object()


def as_reader(
    data: Tabular, target: pa.Schema | None = None, *, cast: bool = False
) -> tuple[pa.RecordBatchReader, int | None]:
    """Returns a reader of ``data``, and its number of rows; ``None`` if that is unknown.

    Args:
        target: types, by column name, for Python values and the text of CSV files. Data that has
            types keeps them.
        cast: whether to round or truncate Python values that a target type cannot represent.
        data: one of

    * an object with ``__arrow_c_stream__`` or ``__arrow_c_array__``: of pyarrow, polars, DuckDB,
      and files, datasets and scans of nimblepy;
    * a pandas DataFrame (with its index if the index has names), a polars LazyFrame, a dataset or
      scanner of pyarrow;
    * a dict of columns, where numpy arrays may have two dimensions;
    * a path, or a list of paths, as for :func:`nimblepy.input.foreign.open_files`;
    * an iterable of such data except paths, or of rows as dicts. The first item determines the
      types. Other items are converted if no value changes.

    Raises:
        InvalidArgumentError: ``data`` has another type.
    """
    try:
        return _reader_of(data, target, cast)
    except pa.ArrowException as error:
        reason = "; ".join(map(str, error.args))
        raise InvalidArgumentError(f"data: cannot be converted to Arrow: {reason}") from error


def _reader_of(
    data: Any, target: pa.Schema | None, cast: bool
) -> tuple[pa.RecordBatchReader, int | None]:
    if isinstance(data, CountedReader):
        return data
    if isinstance(data, pa.RecordBatchReader):
        return data, None
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data]), data.num_rows
    if isinstance(data, pa.Table):
        return _table_reader(data), data.num_rows
    package = type(data).__module__.partition(".")[0]
    if package == "pandas" and hasattr(data, "columns") and hasattr(data, "index"):
        return as_reader(_of_pandas(data, target, cast))
    if package == "polars" and hasattr(data, "height") and "Object" in map(str, data.dtypes):
        # polars exports the addresses of Python objects
        return as_reader({n: data[n].to_list() for n in data.columns}, target, cast=cast)
    if hasattr(data, "__arrow_c_stream__"):
        return _import_stream(data), _length(data)
    if hasattr(data, "__arrow_c_array__"):
        try:
            return as_reader(pa.record_batch(data))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InvalidArgumentError(
                f"data: expected a table, got one column: {error}"
            ) from error
    if is_paths(data):
        return open_files(data, target=target, cast=cast)
    if isinstance(data, Mapping):
        return as_reader(_table_of(data, target, cast))
    if package == "polars" and hasattr(data, "collect"):
        return as_reader(_lazy_batches(data))
    if package == "pyarrow" and hasattr(data, "scanner"):
        return data.scanner().to_reader(), None
    if package == "pyarrow" and hasattr(data, "to_reader"):
        return data.to_reader(), None
    if isinstance(data, np.ndarray) and data.dtype.names is not None:
        raise InvalidArgumentError(
            "data: a structured numpy array; pass its columns as a dict: "
            "{name: data[name] for name in data.dtype.names}"
        )
    if isinstance(data, Iterable) and not isinstance(data, bytes):
        return _chained(iter(data), target, cast), None
    raise InvalidArgumentError(
        "data: expected Arrow data (pyarrow, polars, duckdb, pandas, ...), a dict of columns, "
        f"paths of files, or an iterable of such data, got {type(data).__name__}"
    )


def _of_pandas(frame: Any, target: pa.Schema | None, cast: bool) -> pa.Table:
    # An index without names contains only row numbers.
    named = any(name is not None for name in frame.index.names)
    objects = _object_columns(frame, target)
    empty = _columns_of_nan(frame, target)
    try:
        if target is None:
            for name, kind in frame.dtypes.items():
                if kind.kind == "O" and frame.columns.is_unique:
                    _refuse_mixed_times(str(name), frame[name].tolist())
        if target is None or not (objects or empty):
            return pa.Table.from_pandas(frame, preserve_index=named)
        columns: dict[str, Any] = {}
        if named or len(objects) + len(empty) < len(frame.columns):
            rest = frame.drop(columns=[*objects, *empty])
            table = pa.Table.from_pandas(rest, preserve_index=named)
            columns = dict(zip(table.column_names, table.columns, strict=True))
        for name in empty:
            columns[name] = pa.nulls(len(frame), target.field(name).type)
        for name in objects:
            values = [None if is_null(v) or is_nan(v) else v for v in frame[name]]
            columns[name] = typed_column(name, values, target.field(name).type, cast)
        return pa.table(columns)
    except (TypeError, ValueError) as error:
        if isinstance(error, pa.ArrowException):
            raise
        raise InvalidArgumentError(f"data: {error}") from error  # such as a duplicate name


def _refuse_mixed_times(name: str, values: Any) -> None:
    """Raises InvalidArgumentError if no type of times has all values of a column.

    pyarrow takes the type of the first value, and cuts the time of day or the zone of others.
    """
    if not isinstance(values, (list, tuple)):
        return
    kinds: dict[str, object] = {}
    for value in values:
        if is_null(value):
            continue
        if isinstance(value, datetime.datetime):
            kind = "a time without a zone" if value.tzinfo is None else "a time with a zone"
            kinds.setdefault(kind, value)
        elif isinstance(value, datetime.date):
            kinds.setdefault("a date", value)
        elif not kinds:
            return  # a column of other values
    if len(kinds) > 1:
        found = " and ".join(f"{kind} ({show(value)})" for kind, value in kinds.items())
        raise InvalidArgumentError(
            f"column {name!r} has {found}; make them alike, or give the type of the column"
        )


def _object_columns(frame: Any, target: pa.Schema | None) -> list[str]:
    """Returns the columns of Python objects, except columns whose target type is text."""
    if target is None or not frame.columns.is_unique:
        return []
    return [
        name
        for name, kind in frame.dtypes.items()
        if kind.kind == "O" and name in target.names and not is_text(target.field(name).type)
    ]


def _columns_of_nan(frame: Any, target: pa.Schema | None) -> list[str]:
    """Returns the columns that are all NaN, pandas' null, though their target is not numeric."""
    if target is None or not frame.columns.is_unique:
        return []
    return [
        name
        for name, kind in frame.dtypes.items()
        if kind.kind == "f"
        and name in target.names
        and family(target.field(name).type) != "number"
        and frame[name].isna().all()
    ]


def _table_of(
    columns: Mapping[Any, Any], target: pa.Schema | None, cast: bool, first_row: int = 0
) -> pa.Table:
    made: dict[str, Any] = {}
    name: Any = None
    try:
        for name, values in columns.items():
            at = -1 if target is None else target.get_field_index(str(name))
            if target is None or at < 0 or not isinstance(values, (list, tuple)):
                _refuse_mixed_times(str(name), values)
                made[str(name)] = _column(values)
            else:
                kind = target.field(at).type
                made[str(name)] = typed_column(str(name), values, kind, cast, first_row)
        name = None
        return pa.table(made)
    except InvalidArgumentError:
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        place = "" if name is None else f"column {name!r}: "
        single = next((n for n, v in columns.items() if _is_single(v)), None)
        hint = (
            ""
            if single is None
            else (
                f"; {single!r} is one value: expected columns as lists, a row as a dict goes in a "
                "list: [{...}]"
            )
        )
        raise InvalidArgumentError(
            f"data: cannot be converted to a table: {place}{error}{hint}"
        ) from error


def _is_single(values: Any) -> bool:
    return isinstance(values, (str, bytes)) or not isinstance(values, Iterable)


def _column(values: Any) -> Any:
    if isinstance(values, (str, bytes)):  # pyarrow would split it into characters
        raise TypeError(f"{values!r} is not a column")
    if isinstance(values, np.ndarray) and values.ndim == 2 and values.dtype.kind in "biuf":
        flat = pa.array(np.ascontiguousarray(values).reshape(-1))
        return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    if isinstance(values, np.ndarray) and values.dtype.kind in "SU":
        return pa.array(values.tolist())  # pyarrow truncates them at the first NUL
    return values if hasattr(values, "__arrow_c_stream__") else pa.array(values)


def _lazy_batches(frame: Any) -> Iterator[Any]:
    """Yields the rows of a polars LazyFrame, in constant memory if polars supports it."""
    if not hasattr(frame, "collect_batches"):
        yield frame.collect()
        return
    has_batches = False
    for batch in frame.collect_batches(chunk_size=BATCH_ROWS):
        has_batches = True
        yield batch
    if not has_batches:  # an empty result still has a schema
        yield frame.head(0).collect()


def _import_stream(data: Any) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(data)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgumentError(
            f"{_unsupported_column(data)}: a type that Arrow does not support: {error}"
        ) from error


def _unsupported_column(data: Any) -> str:
    """Names the column that pyarrow cannot convert, with its type."""
    if hasattr(data, "get_column"):  # of polars; Arrow's own error does not name the column
        for name in data.columns:
            try:
                pa.RecordBatchReader.from_stream(data.select(name).clear())
            except pa.ArrowException:
                return f"column {name!r} of type {data.schema[name]}"
    return "data"


def _length(data: Any) -> int | None:
    # len() of a DuckDB relation would run its query: use len() only for frames
    height = getattr(data, "height", getattr(data, "num_rows", None))
    return height if isinstance(height, int) else None


def check_column(name: str, column: pa.Array | pa.ChunkedArray) -> None:
    """Raises an InvalidArgumentError if Arrow's cheap checks find that the data is not valid."""
    try:
        column.validate()
    except pa.ArrowInvalid as error:
        raise InvalidArgumentError(f"column {name!r}: invalid data: {error}") from error


def _table_reader(table: pa.Table) -> pa.RecordBatchReader:
    for name, column in zip(table.column_names, table.columns, strict=True):
        check_column(name, column)
    if table.num_columns == 0 and table.num_rows > 0:
        # Batches of a table without columns lose the number of rows.
        empty = pa.StructArray.from_buffers(pa.struct([]), table.num_rows, [None])
        batch = pa.RecordBatch.from_struct_array(empty).replace_schema_metadata(
            table.schema.metadata
        )
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    return table.to_reader(max_chunksize=BATCH_ROWS)


def _chained(items: Iterator[Any], target: pa.Schema | None, cast: bool) -> pa.RecordBatchReader:
    """Concatenates data, with the schema of the first item."""
    first: Any = next(items, _END)
    if first is _END and target is not None:
        return target.empty_table().to_reader()
    if first is _END:
        raise InvalidArgumentError(
            "data: an empty iterable has no columns; pass an empty table, schema.empty_table()"
        )
    if isinstance(first, Mapping):
        items = _rows_as_tables(chain([first], items), target, cast)
        first = next(items)
    elif first is None or isinstance(first, (str, bytes, int, float, tuple, list)):
        raise InvalidArgumentError(
            "data: an iterable must yield pyarrow.RecordBatch objects, frames or rows as dicts, "
            f"got {type(first).__name__}"
        )
    reader, _ = as_reader(first, target, cast=cast)
    typed = _typed(reader.schema, target, cast)
    schema = typed.schema(reader.schema)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from typed(reader)
        for item in items:
            following, _ = as_reader(item, target, cast=cast)
            for batch in _typed(following.schema, target, cast)(following):
                yield conform(batch, schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _typed(have: pa.Schema, target: pa.Schema | None, cast: bool) -> Typed:
    """Returns the conversion of an item to the types of a table. The types of items may differ."""
    columns: dict[str, tuple[Any, pa.DataType]] = {}
    for field in have:
        at = -1 if target is None else target.get_field_index(field.name)
        kind = None if target is None or at < 0 else target.field(at).type
        if kind is not None and not pt.is_nested(kind) and kind != field.type:
            convert = stored(cast=cast)(field.type, kind, f"column {field.name!r}")
            columns[field.name] = convert, kind
    return Typed("data", columns)


def _rows_as_tables(
    rows: Iterator[Any], target: pa.Schema | None, cast: bool
) -> Iterator[pa.Table]:
    """Converts rows as dicts to tables. The first table determines the names and types.

    A name that a row lacks is null. pyarrow would use only the names of the first row.
    """
    schema = None
    begin = 0
    while some := list(islice(rows, BATCH_ROWS)):
        wrong = next((i for i, row in enumerate(some) if not isinstance(row, Mapping)), None)
        if wrong is not None:
            raise InvalidArgumentError(
                f"data: row {begin + wrong} is {some[wrong]!r:.50}; expected a dict, like the "
                "rows before it"
            )
        start, begin = begin, begin + len(some)
        names = dict.fromkeys(name for row in some for name in row)
        if schema is not None:
            unknown = [name for name in names if name not in schema.names]
            if unknown:
                raise InvalidArgumentError(
                    f"data: rows as dicts: a row has {unknown[0]!r}, which none of the first "
                    f"{BATCH_ROWS} rows has; pass a table, or put all names in the first row"
                )
        try:
            if target is None and schema is not None:
                table = pa.Table.from_pylist(some, schema)
            else:
                known = names if schema is None else schema.names
                columns = {n: [row.get(n) for row in some] for n in known}
                table = _table_of(columns, target, cast, start)
        except (pa.ArrowException, TypeError, AttributeError, ValueError, OverflowError) as error:
            if isinstance(error, InvalidArgumentError):
                raise
            raise InvalidArgumentError(f"data: rows as dicts: {error}") from error
        schema = table.schema
        yield table


def slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yields ``batch`` in pieces of at most ``BATCH_ROWS`` rows, without a copy."""
    if batch.num_rows <= BATCH_ROWS:
        yield batch
        return
    for begin in range(0, batch.num_rows, BATCH_ROWS):
        yield batch.slice(begin, BATCH_ROWS)
