"""The commands that print rows: lookup, range and scan."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import typer

import nimblepy as nb
from nimblepy.cli.arguments import NEWEST, OutputFormat, Version
from nimblepy.cli.output import TABLE_ROWS, print_json, print_rows, split_names
from nimblepy.cli.sources import open_rows
from nimblepy.join.joinable import Joinable
from nimblepy.rows.arguments import Inclusive
from nimblepy.rows.nearest import vector_type
from nimblepy.schema.columns import Column, resolve_column
from nimblepy.schema.kinds import is_bytes, is_text
from nimblepy.schema.names import ColumnName
from nimblepy.schema.text import parse_text
from nimblepy.schema.values import place


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Options that the commands share."""

    version: Version = NEWEST
    on: str | None = None
    columns: str | None = None
    limit: int | None = None
    explain: bool = False
    output: OutputFormat = "table"

    @property
    def names(self) -> Sequence[ColumnName] | None:
        """Columns to print; ``None`` for all."""
        return None if self.columns is None else split_names(self.columns)

    @property
    def shown(self) -> int | None:
        """Maximum number of rows to print: a page on a terminal, unless a limit is given."""
        return TABLE_ROWS if self.limit is None and self.output == "table" else self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of ``range`` on the command line."""

    lower: str | None
    upper: str | None
    inclusive: Inclusive
    prefix: str | None
    reverse: bool


def run_lookup(path: str, keys: Sequence[str], query: Query) -> bool:
    """Prints the rows of each key, in the order of the keys. Returns whether there are any."""
    with open_rows(path, query.version) as file:
        columns = _key_columns(file, query.on, primary=True)
        on = [column.name for column in columns]
        parsed = [_parse_key(columns, key) for key in keys]
        if len({len(key) for key in parsed}) > 1:
            raise nb.InvalidArgumentError("all keys must have the same number of values")
        # The first columns of a key are a key too.
        on = on[: len(parsed[0])]
        values = [key[0] if len(on) == 1 else key for key in parsed]
        if query.explain:
            return _print_plan(file.explain(values, on=on, columns=query.names), query)
        names = query.names
        if names is not None and query.output == "table" and len(keys) > 1:
            # People see which row belongs to which key. Programs get the columns they name.
            names = list(dict.fromkeys([*on, *names]))
        table = file.lookup(values, on=on, columns=names)
        return _print_table(
            table, query, missing=f"no row has {'this key' if len(keys) == 1 else 'a key'}"
        )


def run_range(path: str, bounds: Bounds, query: Query) -> bool:
    """Prints a key range or prefix, in key order. Returns whether it has rows."""
    with open_rows(path, query.version) as file:
        columns = _key_columns(file, query.on)
        on = None if query.on is None else [column.name for column in columns]
        arguments: dict[str, Any]
        if bounds.prefix is not None:
            if bounds.lower is not None or bounds.upper is not None:
                raise nb.InvalidArgumentError(
                    "--prefix cannot be combined with --lower and --upper"
                )
            arguments = {"prefix": _parse_prefix(columns, bounds.prefix)}
        else:
            arguments = {
                "lower": None if bounds.lower is None else _parse_key(columns, bounds.lower),
                "upper": None if bounds.upper is None else _parse_key(columns, bounds.upper),
                "inclusive": bounds.inclusive,
            }
        if query.explain:
            return _print_plan(file.explain(on=on, columns=query.names, **arguments), query)
        find = file.range if bounds.prefix is None else file.prefix
        table = find(
            on=on, columns=query.names, limit=_one_more(query), reverse=bounds.reverse, **arguments
        )
        return _print_table(table, query, missing="no row is in this range")


def parameters(given: Sequence[str] | None) -> dict[str, str] | None:
    """Parses ``name=value`` pairs.

    The text is quoted SQL, which takes the type it is compared with.
    """
    if not given:
        return None
    pairs = [pair.partition("=") for pair in given]
    for name, sign, _ in pairs:
        if not name or not sign:
            raise nb.InvalidArgumentError(f"--param: expected NAME=VALUE, got {name!r}")
    values = {name: value for name, _, value in pairs}
    if len(values) < len(pairs):
        names = [name for name, _, _ in pairs]
        twice = next(name for name in values if names.count(name) > 1)
        raise nb.InvalidArgumentError(f"--param: {twice} is given {names.count(twice)} times")
    return values


def run_scan(
    path: str,
    filter: str | None,
    params: Mapping[str, str] | None,
    query: Query,
    *,
    count_only: bool,
) -> bool:
    """Prints rows in file order. Returns whether there are any."""
    with open_rows(path, query.version) as rows:
        if query.explain:
            plan = rows.explain(columns=query.names, filter=filter, params=params)
            return _print_plan(plan, query)
        arguments: dict[str, Any] = {"filter": filter, "params": params}
        if count_only:
            count = rows.scan([], limit=query.limit, **arguments).count()
            if query.output == "json":
                print_json({"rows": count})
            else:
                typer.echo(count)
            return count > 0
        reader = rows.scan(query.names, limit=_one_more(query), **arguments).to_reader()
        if query.output == "table":
            return _print_table(reader.read_all(), query, missing="no row passes")
        return print_rows(reader, reader.schema, query.output)


def run_nearest(path: str, vector: str, k: int, arguments: Mapping[str, Any], query: Query) -> bool:
    """Prints the rows nearest to a vector. Returns whether there are any."""
    numbers = _parse_vector(sys.stdin.read() if vector == "-" else vector)
    with open_rows(path, query.version) as file:
        names = query.names
        if query.explain:
            plan = file.explain(nearest=numbers, k=k, on=query.on, **arguments)
            return _print_plan(plan, query)
        if names is None and query.output == "table":
            # Vectors are too long for a line of a terminal.
            names = [f.name for f in file.schema if vector_type(f.type) is None]
        table = file.nearest(numbers, k, on=query.on, columns=names, **arguments)
        return _print_table(table, query, missing="no row has a vector")


def _parse_vector(text: str) -> list[float]:
    """Parses numbers separated by commas or spaces, with or without brackets."""
    try:
        text = text.strip()
        if text.startswith("[") or text.endswith("]"):
            if not (text.startswith("[") and text.endswith("]")):
                raise ValueError("one of the brackets is missing")
            text = text[1:-1]
        return [float(part) for part in text.replace(",", " ").split()]
    except ValueError as error:
        raise nb.InvalidArgumentError(
            f"VECTOR: expected numbers between commas, such as 0.5,-1,2 ({error})"
        ) from error


def _one_more(query: Query) -> int | None:
    """Reads one row more than a page, to find out whether rows are left out."""
    paged = query.limit is None and query.output == "table"
    return TABLE_ROWS + 1 if paged else query.limit


def _print_table(table: pa.Table, query: Query, *, missing: str) -> bool:
    most = table.num_rows if query.shown is None else min(query.shown, table.num_rows)
    shown = table.slice(0, most)
    left_out = table.num_rows - shown.num_rows
    note = "" if table.num_rows else missing
    if left_out:
        note = f"first {shown.num_rows} rows; --limit shows more"
    return print_rows(shown.to_batches(), table.schema, query.output, note=note)


def _print_plan(plan: nb.Plan, query: Query) -> bool:
    if query.output == "json":
        print_json(plan.to_dict())
    else:
        typer.echo(str(plan))
    return True


def _key_columns(file: Joinable, on: str | None, *, primary: bool = False) -> list[Column]:
    """Returns the columns of ``on``, by default of the cluster key.

    Args:
        primary: the default is the primary key of a table that has one, as for ``Table.lookup``.
    """
    names: Sequence[ColumnName] = [key.column for key in file.cluster_by]
    if on is not None:
        names = split_names(on)
    elif primary and (columns := getattr(file, "primary_key", None)):
        names = columns
    if not names:
        have = "; ".join(
            f"{index.kind} on {', '.join(map(str, index.columns))}" for index in file.indexes
        )
        raise nb.IndexUnavailableError(
            f"the file has no cluster key; pass --on with indexed columns ({have or 'no indexes'})"
        )
    return [resolve_column(file.schema, name) for name in names]


def _key_parts(columns: Sequence[Column], text: str) -> list[str]:
    """Splits a key into the texts of its values. CSV quotes protect commas."""
    if len(columns) == 1:  # a single value may contain commas without quotes
        return [text]
    try:
        parts = next(csv.reader([text], skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise nb.InvalidArgumentError(
            f"key {text!r}: expected values separated by commas, and double quotes around "
            f"values with commas, quotes or line breaks ({str(error).partition(' - ')[0]})"
        ) from error
    if not parts:
        names = ", ".join(column.name for column in columns)
        raise nb.InvalidArgumentError(f"key {text!r} has no value; the key is {names}")
    return parts


def _parse_key(columns: Sequence[Column], text: str) -> tuple[object, ...]:
    """Parses the values of a key to Python values of the column types."""
    parts = _key_parts(columns, text)
    if len(parts) > len(columns):
        names = ", ".join(column.name for column in columns)
        raise nb.InvalidArgumentError(f"key {text!r} has {len(parts)} values for {names}")
    return tuple(_parse_value(column, part) for column, part in zip(columns, parts, strict=False))


def _parse_value(column: Column, text: str) -> object:
    parsed = parse_text(column.type, text)
    exact = place(column.type, parsed).exact
    if exact is None:
        # The lookup handles values outside of the column's type.
        return parsed.as_py() if isinstance(parsed, pa.Scalar) else parsed
    try:
        return exact.as_py()
    except ValueError:  # nanoseconds that Python's datetime cannot represent
        return exact


def _parse_prefix(columns: list[Column], text: str) -> tuple[object, ...]:
    """Parses a key prefix. A final ``*`` after text means a string prefix."""
    *heads, last = _key_parts(columns, text)
    column = columns[min(len(heads), len(columns) - 1)]
    textual = is_text(column.value_type) or is_bytes(column.value_type)
    if not (last.endswith("*") and textual):
        return _parse_key(columns, text)
    values = [_parse_value(key, part) for key, part in zip(columns, heads, strict=False)]
    stem = last[:-1]
    prefix = nb.starts_with(stem.encode() if is_bytes(column.value_type) else stem)
    return (*values, prefix)
