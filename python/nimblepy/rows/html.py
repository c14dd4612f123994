"""Shows objects as HTML in notebooks. Names and values are escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import pyarrow as pa

# Maximum length of a value's text, and maximum number of columns and rows shown.
_LONGEST, _MOST_COLUMNS, _MOST_ROWS = 60, 100, 5


def html_table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a table with a header."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(_short(value))}</td>' for value in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_text(text: str) -> str:
    """Returns HTML that shows the text unchanged, in a fixed-width font."""
    return f"<pre>{escape(text)}</pre>"


def html_facts(title: str, facts: Mapping[str, object]) -> str:
    """Returns a title and a table of named figures. Empty figures are left out."""
    shown = {name: value for name, value in facts.items() if value not in (None, "")}
    rows = [(name, f"{v:,}" if type(v) is int else v) for name, v in shown.items()]
    return f"<p><b>{escape(title)}</b></p>{html_table(('', ''), rows) if rows else ''}"


def html_rows(
    title: str,
    facts: Mapping[str, object],
    schema: pa.Schema | None,
    keys: Sequence[str] = (),
    first_rows: pa.Table | None = None,
) -> str:
    """Returns HTML that describes a source of rows: figures, columns and first rows.

    Args:
        schema: the columns; ``None`` if the source is closed.
        keys: columns of the cluster key, in order.
    """
    parts = [html_facts(title, facts)]
    if schema is not None:
        columns = [
            (field.name, field.type, "" if field.nullable else "not null", _place(field.name, keys))
            for field in list(schema)[:_MOST_COLUMNS]
        ]
        left = len(schema) - len(columns)
        parts.append(html_table(("column", "type", "", "key"), columns))
        if left:
            parts.append(f"<p>and {left:,} more columns</p>")
    if first_rows is not None and first_rows.num_rows:
        shown = first_rows.slice(0, _MOST_ROWS).select(
            range(min(_MOST_COLUMNS, len(first_rows.schema)))
        )
        values = [column.to_pylist() for column in shown.columns]
        parts.append(html_table(shown.column_names, zip(*values, strict=True)))
    return f"<div>{''.join(parts)}</div>"


def _place(name: str, keys: Sequence[str]) -> str:
    return str(keys.index(name) + 1) if name in keys else ""


def _short(value: Any) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
