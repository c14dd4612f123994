"""Which indexes a workload would profit from: :func:`advise_indexes`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.types as pt

from nimblepy.advise.costs import Cost, Costs
from nimblepy.advise.workload import Question, read_workload
from nimblepy.file.file import File
from nimblepy.file.open import open as open_file
from nimblepy.file.options import HashIndex, SortedIndex, WriteOptions
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.types import format_bytes

# An index is worth its bytes where it makes a question this much cheaper, in the registry's units.
PAYS = 0.5
# Where an index of either kind answers as many questions, a hash index is smaller and quicker.
SORTED_GAIN = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexAdvice:
    """One thing to do, or not to do, about the indexes of a file.

    Attributes:
        action: ``"add"``, ``"keep"``, ``"drop"``, or ``"none"``: nothing pays for these questions.
        kind: ``"hash"`` or ``"sorted"``; empty for ``"none"``.
        columns: of the index; for ``"none"`` those that the questions test.
        index: what to pass to :func:`nimblepy.add_index`; ``None`` unless ``action`` is ``"add"``.
        size_bytes: of the index: estimated where it is to be added.
        questions: shapes of question of the workload that this is about.
        times: how often they are asked, all in all.
        reads_before, reads_after: of one question, in a file that has just been opened.
        bytes_before, bytes_after: that these read.
        why: in words.
    """

    action: str
    kind: str
    columns: tuple[str, ...]
    index: HashIndex | SortedIndex | None
    size_bytes: int
    questions: int
    times: int
    reads_before: float
    reads_after: float
    bytes_before: float
    bytes_after: float
    why: str

    @property
    def reads_saved(self) -> float:
        """A question."""
        return self.reads_before - self.reads_after

    @property
    def bytes_saved(self) -> float:
        """A question."""
        return self.bytes_before - self.bytes_after

    def __str__(self) -> str:
        what = f"{self.action} {self.kind} ({', '.join(self.columns)})".replace("  ", " ")
        size = f", {format_bytes(self.size_bytes)}" if self.size_bytes else ""
        saved = ""
        if self.action == "add":
            saved = (
                f", {self.reads_before:,.0f} -> {self.reads_after:,.0f} reads and "
                f"{format_bytes(round(self.bytes_before))} -> "
                f"{format_bytes(round(self.bytes_after))} a question"
            )
        return f"{what}{size}{saved}: {self.why}"


class AdviceList(list[IndexAdvice]):
    """Advice in the order in which it helps; prints one line each."""

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no question, no advice"

    __repr__ = __str__


def advise_indexes(
    path: str | os.PathLike[str],
    workload: Any,
    *,
    options: WriteOptions | None = None,
    filesystem: Any = None,
) -> list[IndexAdvice]:
    """Which indexes would pay for a workload, which there are for nothing, and why.

    Args:
        path: an existing file; a URI, or a path in ``filesystem``.
        workload: the path of a log that ``nimblepy.open(..., record=path)`` wrote; or a list of

            * filters: SQL text or :class:`pyarrow.compute.Expression`, as ``scan`` takes them;
            * lookups: ``{"on": "email"}``, with the ``"columns"`` that are read (default all),
              the ``"keys"`` at once, and ``"times"``; for ``"op": "range"`` or ``"prefix"`` the
              ``"rows"`` that they find;
            * ``{"filter": ..., "columns": [...], "times": 50}``.
        options: with which an index would be built (``key_chunk_rows``, ``restart_interval``).
        filesystem: :class:`pyarrow.fs.FileSystem` or fsspec file system of ``path``.

    Returns:
        What to add, best first; what to keep and to drop of what is there; then the questions for
        which nothing pays. Sizes, reads and bytes are estimates from the file's own rows.

    Raises:
        InvalidArgumentError: an item of the workload is none of these, or has an unknown column.
        OSError: a file cannot be read.

    Cost: decodes the columns of every index that comes into question, a sorted one's twice; reads
        a sample of the rows for each filter.

    Example:
        >>> advice = nb.advise_indexes(path, ["email = 'x'", {"on": "email"}])  # doctest: +SKIP
        >>> nb.add_index(path, [a.index for a in advice if a.index])  # doctest: +SKIP
    """
    with open_file(path, filesystem=filesystem) as file:
        questions = read_workload(workload, file.schema)
        return AdviceList(_Advisor(file, questions, options).advise())


class _Advisor:
    def __init__(self, file: File, questions: list[Question], options: WriteOptions | None) -> None:
        self.file = file
        self.costs = Costs(file, options)
        self.questions = questions
        self.now = [self.costs.now(question) for question in questions]
        # The best way so far, and the new index that is it.
        self.best: list[tuple[Cost, HashIndex | SortedIndex | None]] = [
            (cost, None) for cost in self.now
        ]
        self.candidates = self._candidates()

    def advise(self) -> list[IndexAdvice]:
        chosen: list[HashIndex | SortedIndex] = []
        while (index := self._most_helpful(chosen)) is not None:
            chosen.append(index)
            self._assign(chosen)
        # One that came later may answer all that an earlier one was for.
        for index in list(chosen):
            rest = [other for other in chosen if other is not index]
            if self._total(rest) <= self._total(chosen) / SORTED_GAIN:
                chosen = rest
        self._assign(chosen)
        return [
            *(self._added(index) for index in chosen),
            *self._existing(),
            *self._unhelped(),
        ]

    # -------------------------------------------------------------- choosing

    def _candidates(self) -> list[HashIndex | SortedIndex]:
        """Indexes that could help with a question, each once, without those that are there."""
        found: dict[HashIndex | SortedIndex, None] = {}
        for question in self.questions:
            for index in candidates_for(question):
                if all(_can_be_key(self.file, name) for name in _names(index)):
                    found.setdefault(index)
        there = {(i.kind, i.names) for i in self.file.handle.indexes}
        return [i for i in found if (_kind(i), _names(i)) not in there]

    def _most_helpful(
        self, chosen: Sequence[HashIndex | SortedIndex]
    ) -> HashIndex | SortedIndex | None:
        best, best_gain = None, 0.0
        for index in self.candidates:
            if index in chosen:
                continue
            gain = 0.0
            for question, (cost, _) in zip(self.questions, self.best, strict=True):
                new = self.costs.with_index(question, index)
                if new is not None and pays(new, cost):
                    gain += question.times * (cost.units - new.units)
            gain *= SORTED_GAIN if isinstance(index, SortedIndex) else 1.0
            if gain > best_gain:
                best, best_gain = index, gain
        return best

    def _assign(self, chosen: Sequence[HashIndex | SortedIndex]) -> None:
        self.best = [self._way(i, chosen) for i in range(len(self.questions))]

    def _way(
        self, i: int, chosen: Sequence[HashIndex | SortedIndex]
    ) -> tuple[Cost, HashIndex | SortedIndex | None]:
        best: tuple[Cost, HashIndex | SortedIndex | None] = (self.now[i], None)
        for index in chosen:
            new = self.costs.with_index(self.questions[i], index)
            if new is not None and pays(new, self.now[i]) and new.units < best[0].units:
                best = new, index
        return best

    def _total(self, chosen: Sequence[HashIndex | SortedIndex]) -> float:
        ways = [self._way(i, chosen)[0] for i in range(len(self.questions))]
        return sum(q.times * way.units for q, way in zip(self.questions, ways, strict=True))

    # -------------------------------------------------------------- saying so

    def _added(self, index: HashIndex | SortedIndex) -> IndexAdvice:
        mine = [i for i, (_, way) in enumerate(self.best) if way is index]
        new = {i: self.best[i][0] for i in mine}
        rows = self._mean(mine, [new[i].rows for i in mine])
        before = self._mean(mine, [self.now[i].rows for i in mine])
        ways = ", ".join(sorted({self.now[i].way for i in mine}))
        return IndexAdvice(
            action="add",
            kind=_kind(index),
            columns=_names(index),
            index=index,
            size_bytes=self.costs.size(index).bytes,
            questions=len(mine),
            times=sum(self.questions[i].times for i in mine),
            reads_before=self._mean(mine, [self.now[i].reads for i in mine]),
            reads_after=self._mean(mine, [new[i].reads for i in mine]),
            bytes_before=self._mean(mine, [self.now[i].bytes for i in mine]),
            bytes_after=self._mean(mine, [new[i].bytes for i in mine]),
            why=(
                f"answers {_count(len(mine), 'question')} of {len(self.questions)}; they look at "
                f"{rows:,.0f} instead of {before:,.0f} rows (now: {ways})"
            ),
        )

    def _mean(self, mine: Sequence[int], values: Sequence[float]) -> float:
        times = [self.questions[i].times for i in mine]
        return sum(t * v for t, v in zip(times, values, strict=True)) / max(1, sum(times))

    def _existing(self) -> list[IndexAdvice]:
        found = []
        for index, info in zip(
            (i for i in self.file.handle.indexes if i.number >= 0),
            (i for i in self.file.indexes if i.kind != "cluster"),
            strict=True,
        ):
            mine = [
                i
                for i, (cost, new) in enumerate(self.best)
                if new is None and cost.number == index.number
            ]
            once = [i for i, cost in enumerate(self.now) if cost.number == index.number]
            if mine:
                why = f"answers {_count(len(mine), 'question')} of {len(self.questions)}"
            elif once:
                why = "an index that is to be added answers its questions for less"
            else:
                why = "no question of this workload uses it"
            advice = self._plain("keep" if mine else "drop", index.kind, index.names, mine, why)
            found.append(replace(advice, size_bytes=info.size_bytes))
        return found

    def _unhelped(self) -> list[IndexAdvice]:
        """Questions that stay as they are, those of one reason together."""
        groups: dict[tuple[tuple[str, ...], str], list[int]] = {}
        for i, (cost, new) in enumerate(self.best):
            if new is None and cost.number is None:
                question = self.questions[i]
                names = tuple(dict.fromkeys(question.names))
                groups.setdefault((names, self._reason(question, cost)), []).append(i)
        return [self._plain("none", "", names, mine, why) for (names, why), mine in groups.items()]

    def _plain(
        self, action: str, kind: str, names: tuple[str, ...], mine: Sequence[int], why: str
    ) -> IndexAdvice:
        reads = self._mean(mine, [self.now[i].reads for i in mine])
        size = self._mean(mine, [self.now[i].bytes for i in mine])
        return IndexAdvice(
            action=action,
            kind=kind,
            columns=names,
            index=None,
            size_bytes=0,
            questions=len(mine),
            times=sum(self.questions[i].times for i in mine),
            reads_before=reads,
            reads_after=reads,
            bytes_before=size,
            bytes_after=size,
            why=why,
        )

    def _reason(self, question: Question, cost: Cost) -> str:
        if cost.way.startswith("cluster"):
            return f"the {cost.way} index answers it already"
        if cost.way == "zone maps":
            return f"zone maps leave {cost.rows:,.0f} of {self.file.num_rows:,} rows already"
        if cost.way != "scan":
            return cost.way
        if not question.tests:
            return "it tests nothing that an index answers"
        found = (
            self.costs.rows_found(question)
            if question.op != "filter"
            else (self.costs.share(question, question.tests) * self.file.num_rows)
        )
        if cost.units < 1:
            return f"the file has only {self.file.num_rows:,} rows"
        if all(not _can_be_key(self.file, test.column) for test in question.tests):
            return "the type of the column cannot be indexed"
        share = found / max(1, self.file.num_rows)
        return f"about {found:,.0f} rows pass, {share:.1%}: reading all of them costs less"


def candidates_for(question: Question) -> list[HashIndex | SortedIndex]:
    """Indexes that could answer a question, for itself alone."""
    names = question.names
    if not names:
        return []
    if question.op == "lookup":
        return [HashIndex(list(names)), SortedIndex(list(names))]
    if question.op != "filter":
        return [SortedIndex(list(names))]
    equal = list(dict.fromkeys(t.column for t in question.tests if t.kind == "equal"))
    others = list(dict.fromkeys(t.column for t in question.tests if t.kind != "equal"))
    found: list[HashIndex | SortedIndex] = [HashIndex(name) for name in equal]
    if len(equal) > 1:
        found.append(HashIndex(sorted(equal)))
    for name in others:
        if name not in equal:
            found.append(SortedIndex(name))
            if equal:
                found.append(SortedIndex([*equal, name]))
    return found


def pays(new: Cost, old: Cost) -> bool:
    """Is the new way so much cheaper that an index is worth having? Of one row nothing is."""
    return old.units >= 1 and new.units <= old.units * PAYS


def _kind(index: HashIndex | SortedIndex) -> str:
    return "hash" if isinstance(index, HashIndex) else "sorted"


def _names(index: HashIndex | SortedIndex) -> tuple[str, ...]:
    if isinstance(index, HashIndex):
        return index.columns
    return tuple(key.column for key in index.columns)


def _can_be_key(file: File, name: str) -> bool:
    kind = resolve_column(file.schema, name).value_type
    return not pt.is_nested(kind) and not pt.is_null(kind) and not pt.is_interval(kind)


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"
