"""Recommends indexes for a workload: :func:`advise_indexes`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import pyarrow.types as pt

from nimblepy.advise.costs import Cost, Costs
from nimblepy.advise.workload import Question, Workload, read_workload
from nimblepy.errors import InvalidArgumentError
from nimblepy.file.file import File, source_of_file
from nimblepy.file.options import HashIndex, SortedIndex, WriteOptions
from nimblepy.file.source import FileSource
from nimblepy.files.resolve import Source, as_rows
from nimblepy.files.source import FilesSource
from nimblepy.io.location import FileSystem
from nimblepy.join.joinable import Joinable
from nimblepy.rows.rows import source_of
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.names import output_name
from nimblepy.schema.types import as_sort_keys, format_bytes

# An index pays off if a question then costs at most this fraction of its current cost.
PAYS = 0.5
# Factor for the gain of a sorted index, because a hash index is smaller and faster.
SORTED_GAIN = 0.9

NewIndex: TypeAlias = HashIndex | SortedIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexAdvice:
    """Advice on one index of a file, or on questions that no index helps.

    Attributes:
        action: ``"none"`` means that no index pays off for these questions.
        kind: ``"hash"`` or ``"sorted"``; empty for ``"none"``.
        columns: the columns of the index; for ``"none"`` the columns that the questions test.
        index: the argument for :func:`nimblepy.add_index`; ``None`` unless ``action`` is ``"add"``.
        size_bytes: size of the index; an estimate if ``action`` is ``"add"``.
        questions: number of different questions in the workload that the advice applies to.
        times: how often these questions are asked in total.
        reads_before, reads_after: reads per question, in a newly opened file.
        bytes_before, bytes_after: bytes of these reads.
        why: the reason in words.
    """

    action: Literal["add", "keep", "drop", "none"]
    kind: Literal["hash", "sorted", ""]
    columns: tuple[str, ...]
    index: NewIndex | None
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
        """Reads that the index saves per question."""
        return self.reads_before - self.reads_after

    @property
    def bytes_saved(self) -> float:
        """Bytes that the index saves per question."""
        return self.bytes_before - self.bytes_after

    def __str__(self) -> str:
        what = f"{self.action} {self.kind} ({', '.join(self.columns)})".replace("  ", " ")
        size = f", {format_bytes(self.size_bytes)}" if self.size_bytes else ""
        saved = ""
        if self.action == "add":
            saved = (
                f", {self.reads_before:,.0f} -> {self.reads_after:,.0f} reads and "
                f"{format_bytes(round(self.bytes_before))} -> "
                f"{format_bytes(round(self.bytes_after))} per question"
            )
        return f"{what}{size}{saved}: {self.why}"


class AdviceList(list[IndexAdvice]):
    """A list of advice, the most helpful first. Prints one line per item."""

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no question, no advice"

    __repr__ = __str__


def advise_indexes(
    path: Source,
    workload: Workload,
    *,
    options: WriteOptions | None = None,
    filesystem: FileSystem | None = None,
) -> list[IndexAdvice]:
    """Advises which indexes to add to a file for a workload, and which existing ones to drop.

    Args:
        path: path or URI of a file or a directory of files, or an open :class:`File` or
            :class:`Dataset`. Of many files, only the file with the most rows is examined.
        workload: the path of a log that ``nimblepy.open(..., record=path)`` wrote; or a list of

            * filters: SQL text or :class:`pyarrow.compute.Expression`, as for ``scan``;
            * lookups: ``{"on": "email"}``, optionally with the ``"columns"`` to read (default
              all), the number of ``"keys"`` per call, and ``"times"``; for ``"op": "range"`` or
              ``"prefix"`` also the ``"rows"`` that one call returns;
            * ``{"filter": ..., "columns": [...], "times": 50}``.
        options: options for building the index (``key_chunk_rows``, ``restart_interval``).
        filesystem: file system of ``path``, as for :func:`nimblepy.open`.

    Returns:
        The indexes to add, the most helpful first; then the indexes to keep or drop; then the
        questions for which no index pays off. Sizes, reads and bytes are estimated from the file's
        rows.

    Raises:
        InvalidArgumentError: an item of the workload is not valid, or names an unknown column.
        OSError: a file cannot be read.

    Cost: decodes the columns of every candidate index, for sorted indexes twice; reads a sample of
        the rows for each filter.

    Example:
        >>> advice = nb.advise_indexes(path, ["email = 'x'", {"on": "email"}])  # doctest: +SKIP
        >>> nb.add_index(path, [a.index for a in advice if a.index])  # doctest: +SKIP
    """
    rows = as_rows(path, filesystem=filesystem)
    with nullcontext() if rows is path else rows:
        file = _largest(rows)
        questions = read_workload(workload, file.schema)
        return AdviceList(_Advisor(file, questions, options).advise())


def _largest(rows: Joinable) -> FileSource:
    """Returns the file itself, or the file with the most rows."""
    if isinstance(rows, File):
        return source_of_file(rows)
    source = source_of(rows)
    if isinstance(source, FilesSource) and source.num_rows:
        for i in np.argsort(-np.diff(source.first_rows))[:8].tolist():
            file = source.child(i)  # in a table it may be Parquet, or have an older schema
            if isinstance(file, FileSource):
                return file
    raise InvalidArgumentError(f"{rows!r}: no nimble file to advise on")


@dataclass(frozen=True, slots=True)
class _Answer:
    """A question with the cheapest way to answer it.

    Attributes:
        new: the new index that this way needs; ``None`` if it needs no new index.
    """

    question: Question
    current: Cost
    cost: Cost
    new: NewIndex | None


class _Advisor:
    def __init__(
        self, file: FileSource, questions: list[Question], options: WriteOptions | None
    ) -> None:
        self.file = file
        self.costs = Costs(file, options)
        self.asked = [(question, self.costs.current(question)) for question in questions]

    def advise(self) -> list[IndexAdvice]:
        chosen = self._choose()
        answers = self._answers(chosen)
        return [
            *(self._added(index, [a for a in answers if a.new is index]) for index in chosen),
            *self._existing(answers),
            *self._unhelped(answers),
        ]

    # -------------------------------------------------------------- choosing

    def _choose(self) -> list[NewIndex]:
        """Chooses the indexes to add greedily: each step adds the one that saves the most."""
        chosen: list[NewIndex] = []
        candidates = self._candidates()
        while candidates:
            answers = self._answers(chosen)
            gains = [self._gain(index, answers) for index in candidates]
            if max(gains) <= 0:
                break
            chosen.append(candidates.pop(gains.index(max(gains))))
        # A later index may make an earlier one redundant. Compare the cost of only the questions
        # that use the earlier one, so that the cost of other questions does not hide a difference.
        for index in list(chosen):
            rest = [other for other in chosen if other is not index]
            pairs = zip(self._answers(chosen), self._answers(rest), strict=True)
            using = [(having, lacking) for having, lacking in pairs if having.new is index]
            without = _total(lacking for _, lacking in using)
            if without <= _total(having for having, _ in using) / SORTED_GAIN:
                chosen = rest
        return chosen

    def _candidates(self) -> list[NewIndex]:
        """Returns the indexes that could help with a question and do not exist yet."""
        existing = {(i.kind, i.names) for i in self.file.handle.indexes}
        candidates = dict.fromkeys(
            index for question, _ in self.asked for index in candidates_for(question)
        )
        return [
            index
            for index in candidates
            if (_kind(index), _names(index)) not in existing
            and all(_can_be_key(self.file, name) for name in _names(index))
        ]

    def _gain(self, index: NewIndex, answers: Sequence[_Answer]) -> float:
        """Returns the cost that ``index`` would save, compared with the current answers."""
        gain = 0.0
        for answer in answers:
            cost = self.costs.with_index(answer.question, index)
            if cost is not None and pays(cost, answer.cost):
                gain += answer.question.times * (answer.cost.cost - cost.cost)
        return gain * (SORTED_GAIN if isinstance(index, SortedIndex) else 1.0)

    def _answers(self, chosen: Sequence[NewIndex]) -> list[_Answer]:
        """Returns the cheapest way to answer each question, with these indexes added."""
        answers = []
        for question, current in self.asked:
            best = _Answer(question, current, current, None)
            for index in chosen:
                cost = self.costs.with_index(question, index)
                if cost is not None and pays(cost, current) and cost.cost < best.cost.cost:
                    best = _Answer(question, current, cost, index)
            answers.append(best)
        return answers

    # -------------------------------------------------------------- advice

    def _added(self, index: NewIndex, answers: list[_Answer]) -> IndexAdvice:
        after = _mean(answers, lambda a: a.cost.rows)
        before = _mean(answers, lambda a: a.current.rows)
        paths = ", ".join(sorted({a.current.access_path for a in answers}))
        why = (
            f"{self._answered(answers)}; they look at {after:,.0f} instead of {before:,.0f} rows "
            f"(now: {paths})"
        )
        size = self.costs.size(index).bytes
        return _advice("add", _kind(index), _names(index), answers, why, size, index)

    def _existing(self, answers: list[_Answer]) -> list[IndexAdvice]:
        advice = []
        sizes = (info.size_bytes for info in self.file.indexes if info.kind != "cluster")
        secondary = (index for index in self.file.handle.indexes if index.number >= 0)
        for index, size in zip(secondary, sizes, strict=True):
            using = [a for a in answers if a.new is None and a.cost.number == index.number]
            if using:
                why = self._answered(using)
            elif any(a.current.number == index.number for a in answers):
                why = "an index that is to be added answers its questions for less"
            else:
                why = "no question of this workload uses it"
            action: Literal["keep", "drop"] = "keep" if using else "drop"
            kind: Literal["hash", "sorted"] = "hash" if index.kind == "hash" else "sorted"
            advice.append(
                _advice(action, kind, tuple(map(output_name, index.names)), using, why, size)
            )
        return advice

    def _unhelped(self, answers: list[_Answer]) -> list[IndexAdvice]:
        """Returns advice for questions that no index helps, grouped by columns and reason."""
        groups: dict[tuple[tuple[str, ...], str], list[_Answer]] = {}
        for answer in answers:
            if answer.new is None and answer.cost.number is None:
                names = tuple(dict.fromkeys(answer.question.names))
                groups.setdefault((names, self._reason(answer)), []).append(answer)
        return [
            _advice("none", "", names, unhelped, why) for (names, why), unhelped in groups.items()
        ]

    def _answered(self, answers: list[_Answer]) -> str:
        plural = "s" * (len(answers) != 1)
        return f"answers {len(answers)} question{plural} of {len(self.asked)}"

    def _reason(self, answer: _Answer) -> str:
        question, cost = answer.question, answer.cost
        if cost.access_path.startswith("cluster"):
            return f"the {cost.access_path} index answers it already"
        if cost.access_path == "zone maps" and cost.rows <= self.file.num_rows * PAYS:
            return f"zone maps leave {cost.rows:,.0f} of {self.file.num_rows:,} rows already"
        if cost.access_path not in ("scan", "zone maps"):
            return cost.access_path
        if not question.tests:
            return "it tests nothing that an index answers"
        if cost.cost < 1:
            return f"the file has only {self.file.num_rows:,} rows"
        if not any(_can_be_key(self.file, test.column) for test in question.tests):
            return "the type of the column cannot be indexed"
        rows = self.costs.rows_found(question)
        share = rows / max(1, self.file.num_rows)
        return f"about {rows:,.0f} rows pass, {share:.1%}: reading all of them costs less"


def _advice(
    action: Literal["add", "keep", "drop", "none"],
    kind: Literal["hash", "sorted", ""],
    columns: tuple[str, ...],
    answers: list[_Answer],
    why: str,
    size_bytes: int = 0,
    index: NewIndex | None = None,
) -> IndexAdvice:
    return IndexAdvice(
        action=action,
        kind=kind,
        columns=columns,
        index=index,
        size_bytes=size_bytes,
        questions=len(answers),
        times=sum(a.question.times for a in answers),
        reads_before=_mean(answers, lambda a: a.current.reads),
        reads_after=_mean(answers, lambda a: a.cost.reads),
        bytes_before=_mean(answers, lambda a: a.current.bytes),
        bytes_after=_mean(answers, lambda a: a.cost.bytes),
        why=why,
    )


def _total(answers: Iterable[_Answer]) -> float:
    return sum(a.question.times * a.cost.cost for a in answers)


def _mean(answers: Sequence[_Answer], value: Callable[[_Answer], float]) -> float:
    """Returns the mean of ``value``, weighted by how often each question is asked."""
    times = sum(a.question.times for a in answers)
    return sum(a.question.times * value(a) for a in answers) / max(1, times)


def candidates_for(question: Question) -> list[NewIndex]:
    """Returns the indexes that could answer this question."""
    names = question.names
    if not names:
        return []
    if question.op == "lookup":
        return [HashIndex(list(names)), SortedIndex(list(names))]
    if question.op != "filter":
        return [SortedIndex(list(names))]
    equal = list(dict.fromkeys(t.column for t in question.tests if t.kind == "equal"))
    others = list(dict.fromkeys(t.column for t in question.tests if t.kind != "equal"))
    indexes: list[NewIndex] = [HashIndex(name) for name in equal]
    if len(equal) > 1:
        indexes.append(HashIndex(sorted(equal)))
    for name in others:
        if name not in equal:
            indexes.append(SortedIndex(name))
            if equal:
                indexes.append(SortedIndex([*equal, name]))
    return indexes


def pays(new: Cost, old: Cost) -> bool:
    """Returns whether an index pays off.

    If the question already costs less than reading one row, no index pays off.
    """
    return old.cost >= 1 and new.cost <= old.cost * PAYS


def _kind(index: NewIndex) -> Literal["hash", "sorted"]:
    return "hash" if isinstance(index, HashIndex) else "sorted"


def _names(index: NewIndex) -> tuple[str, ...]:
    return tuple(output_name(key.column) for key in as_sort_keys(index.columns))


def _can_be_key(file: FileSource, name: str) -> bool:
    kind = resolve_column(file.schema, name).value_type
    return not pt.is_nested(kind) and not pt.is_null(kind) and not pt.is_interval(kind)
