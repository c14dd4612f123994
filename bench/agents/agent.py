"""An agent without a model: it grounds parsed questions by rules, from answers of the server only.

It never sees rows, except in the arm without claims, where it samples some as a person would.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from bench.agents.questions import Question
from nimblepy.errors import NimbleError
from nimblepy.mcp.answers import Answers
from nimblepy.mcp.budget import tokens

Arm: TypeAlias = Literal["bare", "trusting", "checking"]
# How many of a unit make the unit above it.
_FACTORS = {
    ("cent", "euro"): 100,
    ("gram", "kilogram"): 1000,
    ("millisecond", "second"): 1000,
}
_DOUBTED = ("contradicted", "suspect")


class Abstain(Exception):
    """The catalog does not say enough."""


@dataclass(eq=False)
class Agent:
    """Answers questions; ``spent`` counts the tokens of the answers that it read."""

    answers: Answers
    arm: Arm
    spent: int = 0
    _described: dict[str, dict[str, Any]] = field(default_factory=dict)

    def answer(self, question: Question) -> float | None:
        """The number; ``None`` if the agent abstains."""
        self._described = {}
        try:
            sql = self._sql(question)
            rows = self._ask("query", sql)["rows"]
        except (Abstain, NimbleError):
            return None
        return None if rows[0][0] is None else float(rows[0][0])

    def _ask(self, tool: str, *arguments: Any, **named: Any) -> dict[str, Any]:
        answer: dict[str, Any] = getattr(self.answers, tool)(*arguments, **named)
        self.spent += tokens(answer)
        return answer

    def _claim(self, item: dict[str, Any], kind: str) -> tuple[Any, str, str]:
        """What is claimed, its status, and what was observed."""
        claim = item.get(kind)
        if claim is None:
            return None, "none", ""
        value, status, observed = (*claim, "")[:3]
        return (value, status, observed) if self.arm == "checking" else (value, "trusted", "")

    def _describe(self, table: str) -> dict[str, Any]:
        if table not in self._described:
            self._described[table] = self._ask("describe", table, max_tokens=4_000)
        return self._described[table]

    # ------------------------------------------------------------------ grounding

    def _table(self, words: str) -> str:
        hits = self._ask("find_tables", words)["tables"]
        trusted = []
        for hit in hits:
            successor, status, _ = self._claim(hit, "deprecated")
            if successor is None:
                trusted.append(hit["table"])
            elif status in _DOUBTED:  # it was written later than its successor
                return str(hit["table"])
        if not trusted:
            raise Abstain
        named = [table for table in trusted if table.rpartition(".")[2] in words.split()]
        return str((named or trusted)[0])

    def _sql(self, question: Question) -> str:
        table = self._table(question.table)
        item = self._describe(table)
        conditions = [self._coded(table, meaning) for meaning in question.where]
        source = table
        if question.nulls is not None:
            conditions.append(f"{table}.{self._column(item, question.nulls)} IS NULL")
        if question.joined is not None:
            other = self._table(question.joined[0])
            source = self._join(table, other)
            conditions.append(self._coded(other, question.joined[1]))
        for name, column in item["columns"].items():
            if self._claim(column, "snapshot_of")[0]:
                conditions.append(f"{table}.{name} = (SELECT max({name}) FROM {table})")
        what = "count(*)"
        if question.measure is not None:
            name = self._column(item, question.measure)
            factor = self._factor(item["columns"][name], question.unit)
            what = f"sum({table}.{name}) / {factor}"
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {what} FROM {source}{where}"

    def _column(self, item: dict[str, Any], words: str) -> str:
        """The column whose name and text have most of the words."""
        wanted = set(words.split())
        scores = {}
        for name, column in item["columns"].items():
            text = f"{name} {self._claim(column, 'about')[0] or ''}"
            scores[name] = len(wanted & set(re.findall(r"[a-z]+", text.lower())))
        best = max(scores, key=lambda name: scores[name])
        if not scores[best]:
            raise Abstain
        return best

    def _coded(self, table: str, meaning: str) -> str:
        """The condition that a coded column has a meaning."""
        item = self._describe(table)
        if self.arm == "bare":
            return self._guessed(table, meaning)
        repaired = []
        for name, column in item["columns"].items():
            codes, status, observed = self._claim(column, "values")
            if codes is None:
                continue
            absent = _listed(observed, "no row has ")
            unknown = _listed(observed, "values that are not claimed: ")
            code = next((code for code, text in codes.items() if text == meaning), None)
            if code is not None and not (status in _DOUBTED and code in absent):
                return f"{table}.{name} = '{code}'"
            if status == "contradicted" and len(unknown) == 1 and len(absent) <= 1:
                # The code was renamed, or it is the one that is missing.
                repaired.append((code is not None, f"{table}.{name} = '{unknown[0]}'"))
        if not repaired:
            raise Abstain
        return max(repaired)[1]

    def _guessed(self, table: str, meaning: str) -> str:
        """The value of some column that begins as the meaning does."""
        rows = self._ask("sample", table, n=20)["rows"]
        for name in rows[0]:
            for value in {row[name] for row in rows if isinstance(row[name], str)}:
                if meaning.startswith(value.lower()):
                    return f"{table}.{name} = '{value}'"
        raise Abstain

    def _factor(self, column: dict[str, Any], wanted: str | None) -> int:
        if wanted is None or self.arm == "bare":
            return 1
        claimed, status, observed = self._claim(column, "unit")
        if claimed is None:
            return 1
        unit = claimed["unit"]
        if status in _DOUBTED:
            largest = float(observed.partition(" .. ")[2].partition(";")[0])
            off = largest / claimed["range"][1]
            smaller = [(f, pair) for pair, f in _FACTORS.items() if pair[1] == unit]
            if not smaller or not smaller[0][0] / 3 < off < smaller[0][0] * 3:
                raise Abstain
            unit = smaller[0][1][0]
        return 1 if unit == wanted else _FACTORS[unit, wanted]

    def _join(self, table: str, other: str) -> str:
        if self.arm == "bare":
            key = next(iter(self._describe(other)["columns"]))
            names = [key, key.removesuffix("_id")]
            same = [n for n in self._describe(table)["columns"] if n in names]
            if not same:
                raise Abstain
            return f"{table} JOIN {other} ON {table}.{same[0]} = {other}.{key}"
        path = self._ask("join_path", table, other)
        doubted = self.arm == "checking" and "warning" in path
        if "sql" in path and not doubted:
            return str(path["sql"]).removeprefix("FROM ")
        candidates = path.get("measured_candidates", []) if self.arm == "checking" else []
        if not candidates:
            raise Abstain
        return f"{table} JOIN {other} ON {candidates[0]['on']}"


def _listed(observed: str, after: str) -> list[str]:
    """The values that an observation lists after some words."""
    _, _, rest = observed.partition(after)
    return [word.strip().strip("'") for word in rest.partition(";")[0].split(",") if word.strip()]
