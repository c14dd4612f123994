"""Prints rows: a table for people, JSON lines or CSV for programs."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import chain

import pyarrow as pa
import pyarrow.csv
import pyarrow.types as pt
import typer

from nimblepy.cli.arguments import OutputFormat
from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.variant import is_variant, variant_json

# A terminal shows this many rows without --limit; --json and --csv print all rows.
TABLE_ROWS = 20
# Minimum width of a value if there are many columns.
_LEAST_CELL = 6


def split_names(text: str) -> list[str]:
    """Splits ``"a, b"`` into names. Requires at least one name."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InvalidArgumentError(f"no column given: expected names as in 'a,b', got {text!r}")
    return names


def print_json(value: object) -> None:
    """Prints one JSON document."""
    typer.echo(json.dumps(jsonable(value), indent=2, ensure_ascii=False))


def jsonable(value: object) -> object:
    """Converts ``value`` for JSON: times in ISO form, decimals as text, bytes in hexadecimal.

    NaN and infinities become text, because JSON does not have them.
    """
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    return str(value)


def print_rows(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    output: OutputFormat,
    *,
    chosen: bool = True,
    note: str = "",
) -> bool:
    """Prints batches while they are read. Returns whether there are rows.

    Args:
        chosen: the command has ``--columns``.
        note: a line for people after the table, such as the number of rows left out.
    """
    rows = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for batch in batches:
            rows += batch.num_rows
            yield batch

    if output == "json":
        variants = [field.name for field in schema if is_variant(field)]
        for batch in counted():
            for row in plain_values(batch).to_pylist():
                for name in variants:
                    row[name] = None if row[name] is None else json.loads(row[name])
                typer.echo(json.dumps(jsonable(row), ensure_ascii=False))
    elif output == "csv":
        _print_csv(counted(), schema)
    else:
        _print_table(list(counted()), schema, chosen)
        if note:
            typer.echo(note, err=True)
    return rows > 0


def plain_values(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Converts nanosecond columns to text, because Python's times have only microseconds. Variants
    become JSON text.
    """
    for position, field in enumerate(batch.schema):
        kind = field.type
        if is_variant(field):
            values = batch.column(position).to_pylist()
            shown = [None if value is None else variant_json(value) for value in values]
            batch = batch.set_column(position, field.name, pa.array(shown, pa.string()))
            continue
        temporal = pt.is_timestamp(kind) or pt.is_time64(kind) or pt.is_duration(kind)
        if temporal and kind.unit == "ns":
            wide = pa.int64() if pt.is_duration(kind) else pa.string()
            text = batch.column(position).cast(wide)
            batch = batch.set_column(position, field.name, text)
    return batch


def _print_csv(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
    if not schema.names:
        return
    first = True
    for batch in chain([_empty(schema)], batches):
        if not first and not batch.num_rows:
            continue
        sink = pa.BufferOutputStream()
        options = pa.csv.WriteOptions(include_header=first, quoting_style="needed")
        pa.csv.write_csv(_flat(batch), sink, write_options=options)
        typer.echo(sink.getvalue().to_pybytes(), nl=False)
        first = False


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    """Returns an empty batch, so that the header is printed if there are no rows."""
    arrays = [pa.array([], type=field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Converts columns that CSV cannot represent to JSON text."""
    arrays = []
    for field, column in zip(plain_values(batch).schema, plain_values(batch).columns, strict=True):
        if _csv_can_hold(field.type):
            arrays.append(column)
            continue
        texts = [value if value is None else _text(jsonable(value)) for value in column.to_pylist()]
        arrays.append(pa.array(texts, type=pa.string()))
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _csv_can_hold(kind: pa.DataType) -> bool:
    return bool(
        pt.is_integer(kind)
        or pt.is_float32(kind)
        or pt.is_float64(kind)
        or pt.is_boolean(kind)
        or pt.is_string(kind)
        or pt.is_large_string(kind)
        or pt.is_date(kind)
        or pt.is_time(kind)
        or pt.is_timestamp(kind)
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _print_table(batches: list[pa.RecordBatch], schema: pa.Schema, chosen: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table(header_style="bold")
    left_out: list[str] = []
    rows = [
        row
        for batch in batches
        for row in zip(*(c.to_pylist() for c in plain_values(batch).columns), strict=True)
    ]
    if len(rows) == 1:  # one row is printed from top to bottom
        table.add_column("column")
        table.add_column("value", overflow="fold")
        rows = list(zip(schema.names, rows[0], strict=True))
    else:
        least = [_least_width(field, i, rows) for i, field in enumerate(schema)]
        shown = _fitting(least, console.width)
        left_out = schema.names[shown:]
        rows = [row[:shown] for row in rows]
        widths = _widths(least[:shown], schema.names[:shown], rows, console.width)
        for field, width in zip(list(schema)[:shown], widths, strict=True):
            number = pt.is_integer(field.type) or pt.is_floating(field.type)
            right = number or pt.is_decimal(field.type)
            table.add_column(
                Text(field.name),
                justify="right" if right else "left",
                overflow="fold",
                width=width,  # rich's own widths may exceed the terminal
            )
    for row in rows:
        # Text, not str: rich would read [brackets] in data as markup.
        table.add_row(*(Text(_cell(value)) for value in row))
    console.print(table)
    if left_out:
        names = ", ".join(left_out[:8]) + ", ..." * (len(left_out) > 8)
        hint = "--columns chooses, " if chosen else ""
        typer.echo(f"{len(left_out)} more columns: {names}; {hint}--json prints all", err=True)


def _least_width(field: pa.Field, column: int, rows: Sequence[Sequence[object]]) -> int:
    """Returns the minimum width of a column, so that its name and integers are not broken."""
    texts = [_cell(row[column]) for row in rows] if pt.is_integer(field.type) else []
    return max(map(len, [field.name, *texts]))


def _fitting(least: Sequence[int], width: int) -> int:
    """Returns how many columns fit side by side with their minimum widths."""
    left = width - 1
    for shown, needed in enumerate(least):
        left -= max(needed, _LEAST_CELL) + 3
        if left < 0:
            return max(shown, 1)
    return len(least)


def _widths(
    least: Sequence[int], names: Sequence[str], rows: Sequence[Sequence[object]], width: int
) -> list[int]:
    """Returns the width of each column: the width that it needs, if there is enough room."""
    from rich.cells import cell_len

    texts: list[list[str]] = [[name] for name in names]
    for row in rows:
        for column, value in zip(texts, row, strict=True):
            column += _cell(value).splitlines()
    whole = [max(map(cell_len, column)) for column in texts]
    room = width - 1 - 3 * len(names)
    if len(names) == 1:
        return [min(whole[0], room)]
    widths = [min(w, max(a, _LEAST_CELL)) for w, a in zip(whole, least, strict=True)]
    left = max(room - sum(widths), 0)
    # Distributes the remaining room, first to the columns that need the least.
    lacking = sorted((whole[i] - widths[i], i) for i in range(len(widths)) if whole[i] > widths[i])
    for position, (lack, i) in enumerate(lacking):
        more = min(lack, left // (len(lacking) - position))
        widths[i] += more
        left -= more
    return widths


def _cell(value: object) -> str:
    return "" if value is None else _text(jsonable(value))
