"""Parses ``SELECT columns FROM t WHERE condition LIMIT n``: the queries that a scan can answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.syntax import SyntaxFault, Token, tokens
from nimblepy.schema.columns import resolve_sql
from nimblepy.schema.names import Path

_CLAUSES = ("from", "where", "limit", "offset")
_BEYOND = {
    *("group", "having", "order", "union", "intersect", "except", "join", "window", "qualify"),
    *("distinct", "with", "as", "using"),
}


@dataclass(frozen=True, slots=True)
class Select:
    """A query of one table.

    Attributes:
        columns: paths of the columns; ``None`` means all.
        count: whether the query selects ``count(*)``.
        where: the text of the condition.
    """

    columns: tuple[Path, ...] | None
    count: bool
    where: str | None
    limit: int | None
    offset: int


def read_select(text: str, schema: pa.Schema) -> Select:
    """Parses a query of one table with ``schema``.

    Raises:
        InvalidArgumentError: the query has another form, or an unknown column.
    """
    text = text.strip().removesuffix(";")
    try:
        words = list(tokens(text))
    except SyntaxFault as fault:
        raise _beyond(text[fault.start : fault.end]) from None
    if not words or words[0].text.lower() != "select":
        raise _beyond(words[0].text if words else "an empty text")
    parts = _clauses(words)
    names, count = _selected(parts["select"], schema)
    source = parts.get("from", ())
    if len(source) > 1 or any(t.kind not in ("word", "quoted", "text") for t in source):
        raise _beyond(" ".join(token.text for token in source))
    where = parts.get("where")
    return Select(
        names,
        count,
        None if where is None else text[where[0].start : where[-1].end] if where else "",
        _number(parts.get("limit")),
        _number(parts.get("offset")) or 0,
    )


def _clauses(words: Sequence[Token]) -> dict[str, list[Token]]:
    """The tokens of each clause, without its name."""
    parts: dict[str, list[Token]] = {"select": []}
    clause, depth = "select", 0
    for token in words[1:]:
        word = token.text.lower() if token.kind in ("word", "sign") else ""
        depth += (word in ("(", "[")) - (word in (")", "]"))
        # FROM also occurs in conditions, as in IS DISTINCT FROM.
        begins = word in _CLAUSES and (word != "from" or clause == "select")
        if depth == 0 and begins and word not in parts:
            clause = word
            parts[clause] = []
        elif depth == 0 and word in _BEYOND and (clause != "where" or word != "distinct"):
            raise _beyond(token.text)
        else:
            parts[clause].append(token)
    return parts


def _selected(words: Sequence[Token], schema: pa.Schema) -> tuple[tuple[Path, ...] | None, bool]:
    shown = "".join(token.text.lower() for token in words)
    if shown == "*":
        return None, False
    if shown == "count(*)":
        return (), True
    paths: list[Path] = []
    parts: list[str] = []
    quoted = False
    for i, token in enumerate([*words, Token("sign", ",", 0, 0)]):
        if i % 2 == 0 and token.kind in ("word", "quoted"):
            quoted |= token.kind == "quoted"
            is_word = token.kind == "word"
            parts.append(token.text if is_word else token.text[1:-1].replace('""', '"'))
        elif i % 2 == 1 and token.text == ",":
            paths.append(resolve_sql(schema, parts, quoted=quoted).path)
            parts, quoted = [], False
        elif i % 2 == 0 or token.text != ".":
            raise _beyond(" ".join(token.text for token in words) or "no column")
    return tuple(paths), False


def _number(words: Sequence[Token] | None) -> int | None:
    if words is None:
        return None
    text = " ".join(token.text for token in words)
    try:
        if text.isdigit():
            return int(text)
    except ValueError:  # more digits than Python reads
        pass
    raise _beyond(text or "no number")


def _beyond(what: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{what!r} is more than SELECT columns FROM t WHERE condition LIMIT n OFFSET n"
    )
