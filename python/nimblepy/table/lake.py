"""Uses the claims about all tables of a catalog: checks, search, and join paths."""

from __future__ import annotations

import math
import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from nimblepy.errors import NimbleError
from nimblepy.io.log import logger
from nimblepy.table.claims.check import check_all
from nimblepy.table.claims.checks import Checks
from nimblepy.table.claims.references import measured, parent_column
from nimblepy.table.claims.subject import Subject
from nimblepy.table.describe import CatalogLake, Tables

_log = logger(__name__)

# Parameters of BM25, and the weight of a word for each place where it occurs.
_SATURATION, _LENGTH = 1.2, 0.75
_WEIGHTS = {"name": 4.0, "synonym": 3.0, "description": 1.5, "column": 1.0}
# Factors for the score of a table.
_DEPRECATED, _CONTRADICTED = 0.3, 0.8
_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_STATUSES = ("verified", "contradicted", "overdue", "suspect", "unchecked", "unverifiable")


@dataclass(frozen=True, kw_only=True)
class JoinStep:
    """One join of a path: ``table.column = to_table.to_column``.

    Attributes:
        orphans: fraction of the distinct values of the referencing column that the referenced
            column lacks; ``None`` if unknown.
        fan_out: average number of matching rows of ``to_table`` for a row of ``table`` that has a
            match; ``None`` if unknown.
    """

    table: str
    column: str
    to_table: str
    to_column: str
    orphans: float | None
    fan_out: float | None

    def __str__(self) -> str:
        return f"{self.table}.{self.column} = {self.to_table}.{self.to_column}"


@dataclass(frozen=True, kw_only=True)
class JoinPath:
    """A sequence of joins that connects two tables.

    Attributes:
        steps: the joins in order.
        orphans: the largest ``orphans`` of a step; ``None`` if any step's is unknown.
        fan_out: average number of rows of the last table for a row of the first; ``None`` if
            unknown.
    """

    steps: tuple[JoinStep, ...]
    orphans: float | None
    fan_out: float | None


def check_lake(catalog: Tables, *, deep: bool = False) -> dict[str, Checks]:
    """See :meth:`nimblepy.table.catalog.Catalog.check`."""
    lake = CatalogLake(catalog)
    return {s.name: check_all(s, lake, deep=deep) for s in _subjects(lake)}


def _subjects(lake: CatalogLake) -> Iterator[Subject]:
    """Yields the tables of a catalog. Leaves out those that cannot be read, with a warning."""
    for name in lake.names():
        try:
            subject = lake.subject(name)
            _ = subject and subject.facts  # reads the manifests, which the checks need
        except (OSError, NimbleError) as error:
            _log.warning("%s: left out, because it cannot be read: %s", name, error)
            continue
        if subject is not None:
            yield subject


def describe_lake(catalog: Tables) -> pa.Table:
    """See :meth:`nimblepy.table.catalog.Catalog.describe`."""
    lake = CatalogLake(catalog)
    rows = []
    for subject in _subjects(lake):
        checks = check_all(subject, lake)
        counts = Counter(str(check.status) for check in checks)
        rows.append(
            {
                "table": subject.name,
                "description": subject.metadata.comment,
                "rows": subject.facts.rows,
                "columns": len(subject.metadata.schema()),
                "last_changed": subject.facts.last_changed,
                "primary_key": subject.primary_key,
                "deprecated_by": _deprecated_by(subject),
                "claims": len(checks),
                **{status: counts[status] for status in _STATUSES},
            }
        )
    integers = {name: pa.int64() for name in ("claims", *_STATUSES)}
    schema = {
        "table": pa.string(),
        "description": pa.string(),
        "rows": pa.int64(),
        "columns": pa.int64(),
        "last_changed": pa.timestamp("us", "UTC"),
        "primary_key": pa.list_(pa.string()),
        "deprecated_by": pa.string(),
        **integers,
    }
    return pa.Table.from_pylist(rows, pa.schema(schema))


def _deprecated_by(subject: Subject) -> str | None:
    named = (claim.value for claim in subject.claims if claim.kind == "deprecated")
    return next((value for value in named if isinstance(value, str)), None)


# ---------------------------------------------------------------------- search


def find_tables(catalog: Tables, query: str, limit: int) -> pa.Table:
    """See :meth:`nimblepy.table.catalog.Catalog.find`."""
    lake = CatalogLake(catalog)
    subjects = list(_subjects(lake))
    documents = [_words_of(subject) for subject in subjects]
    query_words = {_stem(word.lower()): word for word in _WORD.findall(query)}
    found_in = Counter(word for words in documents for word in words)
    lengths = [sum(places.total() for places in words.values()) for words in documents]
    mean = sum(lengths) / max(1, len(lengths))
    rows = []
    for subject, words, length in zip(subjects, documents, lengths, strict=True):
        score, hits = 0.0, []
        for word, written in query_words.items():
            places = words.get(word)
            if places is None:
                continue
            weight = sum(_WEIGHTS[place] * count for place, count in places.items())
            rarity = math.log(1 + (len(documents) - found_in[word] + 0.5) / (found_in[word] + 0.5))
            normal = _SATURATION * (1 - _LENGTH + _LENGTH * length / max(1, mean))
            score += rarity * weight * (_SATURATION + 1) / (weight + normal)
            hits.append(f"{written!r} in {max(places, key=lambda p: _WEIGHTS[p])}")
        if not hits:
            continue
        checks = check_all(subject, lake)
        successor = _deprecated_by(subject)
        if successor is not None:
            score *= _DEPRECATED
            hits.append(f"deprecated by {successor}")
        if not checks:
            score *= _CONTRADICTED
            hits.append(f"{len(checks.contradicted)} claims contradicted")
        rows.append({"table": subject.name, "score": score, "why": ", ".join(hits)})
    rows.sort(key=lambda row: (-float(str(row["score"])), str(row["table"])))
    schema = pa.schema({"table": pa.string(), "score": pa.float64(), "why": pa.string()})
    return pa.Table.from_pylist(rows[: max(0, limit)], schema)


def _words(text: str) -> list[str]:
    """Returns the words of a text or of a name, without plural endings."""
    split = _CAMEL.sub(" ", text)
    return [_stem(word.lower()) for word in _WORD.findall(split)]


def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    plural = len(word) > 3 and word.endswith("s") and not word.endswith("ss")
    return word[:-1] if plural else word


def _words_of(subject: Subject) -> dict[str, Counter[str]]:
    """Returns the words of a table's names and claims, grouped by where they occur."""
    words: dict[str, Counter[str]] = {}

    def add(text: str, place: str) -> None:
        for word in _words(text):
            words.setdefault(word, Counter())[place] += 1

    add(subject.name, "name")
    for name in subject.metadata.schema().names:
        add(name, "column")
    for claim in subject.claims:
        if claim.kind == "description":
            add(str(claim.value), "description" if claim.number is None else "column")
        elif claim.kind == "synonyms":
            add(" ".join(map(str, claim.value)), "synonym")
        elif claim.kind == "values" and isinstance(claim.value, list):
            for code, meaning in claim.value:
                add(f"{code} {meaning or ''}", "column")
        elif claim.kind == "unit" and isinstance(claim.value, dict):
            add(str(claim.value.get("unit", "")), "column")
    return words


# ---------------------------------------------------------------------- joins


@dataclass(frozen=True)
class _Edge:
    """A reference from a column of a table to a key of another table."""

    child: Subject
    number: int
    parent: Subject
    key: int


def join_path(catalog: Tables, left: str, right: str) -> JoinPath | None:
    """See :meth:`nimblepy.table.catalog.Catalog.join_path`."""
    lake = CatalogLake(catalog)
    if left == right:
        return JoinPath(steps=(), orphans=0.0, fan_out=1.0)
    edges = list(_edges(lake))
    paths = _shortest(edges, left, right)
    candidates = [_measured_path(path, left) for path in paths]
    if not candidates:
        return None
    return min(candidates, key=lambda p: (p.orphans is None, p.orphans or 0.0, p.fan_out or 0.0))


def _edges(lake: CatalogLake) -> Iterator[_Edge]:
    for subject in _subjects(lake):
        for claim in subject.claims:
            if claim.kind != "references" or claim.number is None:
                continue
            parent = lake.subject(str(claim.value.get("table")))
            key = None if parent is None else parent_column(parent, claim.value.get("column"))
            if parent is not None and key is not None and subject.column_name(claim.number):
                yield _Edge(subject, claim.number, parent, key)


def _shortest(edges: Sequence[_Edge], left: str, right: str) -> list[list[_Edge]]:
    """Returns all shortest paths between two tables that avoid deprecated tables in between."""
    waiting: deque[tuple[str, list[_Edge]]] = deque([(left, [])])
    depth = {left: 0}
    paths: list[list[_Edge]] = []
    while waiting:
        name, path = waiting.popleft()
        if paths and len(path) >= len(paths[0]):
            break
        for edge in edges:
            ends = {edge.child.name: edge.parent, edge.parent.name: edge.child}
            other = ends.get(name)
            if other is None or other.name == name:
                continue
            if other.name == right:
                paths.append([*path, edge])
            elif depth.get(other.name, len(path) + 1) > len(path) and not _deprecated_by(other):
                depth[other.name] = len(path) + 1
                waiting.append((other.name, [*path, edge]))
    return paths


def _measured_path(path: Sequence[_Edge], left: str) -> JoinPath:
    steps, name = [], left
    for edge in path:
        step = _step(edge, forward=edge.child.name == name)
        steps.append(step)
        name = step.to_table
    orphans = [step.orphans for step in steps]
    fan_outs = [step.fan_out for step in steps]
    worst = None if None in orphans else max((share for share in orphans if share), default=0.0)
    total: float | None = 1.0
    for fan_out in fan_outs:
        total = None if total is None or fan_out is None else total * fan_out
    return JoinPath(steps=tuple(steps), orphans=worst, fan_out=total)


def _step(edge: _Edge, *, forward: bool) -> JoinStep:
    child, parent = edge.child, edge.parent
    orphans = measured(child, edge.number, parent, edge.key, 0.0, deep=False)
    share = None if isinstance(orphans, str) else orphans.share
    names = str(child.column_name(edge.number)), str(parent.column_name(edge.key))
    if forward:
        unique = parent.primary_key == [names[1]]
        fan_out = 1.0 if unique else _rows_per_key(parent, names[1])
        sides: Any = {"table": child.name, "column": names[0]}
        sides |= {"to_table": parent.name, "to_column": names[1]}
    else:
        fan_out = _rows_per_key(child, names[0])
        sides = {"table": parent.name, "column": names[1]}
        sides |= {"to_table": child.name, "to_column": names[0]}
    return JoinStep(**sides, orphans=share, fan_out=fan_out)


def _rows_per_key(subject: Subject, column: str) -> float | None:
    facts = subject.facts.columns[column]
    if not facts.distinct or facts.nulls is None:
        return None
    return (subject.facts.rows - facts.nulls) / facts.distinct
