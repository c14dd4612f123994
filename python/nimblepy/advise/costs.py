"""Estimates the cost of a question with existing indexes and with a new one: rows, reads, bytes.

The number of matching rows is estimated from a sample of the rows and from the number of different
keys. Reads and bytes come from the file's own read plan for that number of rows: at random
positions for an index, in the ranges that zone maps select for a scan. The estimates assume a newly
opened file with empty caches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from nimblepy import _core
from nimblepy.advise.workload import ColumnTest, Question
from nimblepy.errors import IndexUnavailableError
from nimblepy.expr.filter import make_filter
from nimblepy.expr.nodes import Node, all_of
from nimblepy.file.candidates import candidate_rows
from nimblepy.file.index_costs import SCANNED_ROW, search_cost
from nimblepy.file.indexes import CLUSTER
from nimblepy.file.options import HashIndex, SortedIndex, WriteOptions
from nimblepy.file.scan import FilterColumns
from nimblepy.file.source import FileSource
from nimblepy.file.write import index_specs
from nimblepy.rows.request import Where
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.names import Path, output_name
from nimblepy.schema.types import SortKey, as_sort_keys

# The sample has this many runs of this many consecutive rows. A smaller file is read as a whole.
STRETCHES = 256
STRETCH_ROWS = 256
# Fraction of the rows that a range with unknown bounds is assumed to select.
UNKNOWN_RANGE = 0.01
# Maximum number of rows at random positions for which reads are planned.
MOST_POSITIONS = 200_000


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one question.

    Attributes:
        access_path: ``"scan"``, ``"zone maps"``, or an index.
        rows: number of rows to read.
        cost: the cost in the unit of ``file/index_costs.py``: reading one row by its number.
        number: number of the file's secondary index that is used, if any.
    """

    access_path: str
    rows: float
    cost: float
    reads: float
    bytes: float
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Size:
    """The size of an index.

    Attributes:
        keys: number of different keys of a hash index.
        part: bytes of the index that one lookup reads.
    """

    bytes: int
    keys: int
    part: int


class Costs:
    """Estimates the cost of questions to one file. Not thread-safe."""

    def __init__(self, file: FileSource, options: WriteOptions | None) -> None:
        self.file = file
        self._options = options or WriteOptions()
        self._sizes: dict[Any, Size] = {}
        self._shares: dict[str, tuple[int, int]] = {}
        self._with_index: dict[Any, Cost | None] = {}
        n = file.num_rows
        if n <= STRETCHES * STRETCH_ROWS:
            self._sample = np.arange(n, dtype=np.uint64)
        else:
            begins = np.linspace(0, n - STRETCH_ROWS, STRETCHES).astype(np.uint64)
            within = np.arange(STRETCH_ROWS, dtype=np.uint64)
            self._sample = (begins[:, None] + within).ravel()

    def size(self, index: HashIndex | SortedIndex) -> Size:
        """Estimates the size of an index. Cost: one or two passes over its key columns, once."""
        if index not in self._sizes:
            (spec,) = index_specs(self.file.schema, [index])
            options = self._options
            estimate = _core.estimate_index(
                self.file.handle.core, spec, options.key_chunk_rows, options.restart_interval
            )
            self._sizes[index] = Size(*estimate)
        return self._sizes[index]

    # -------------------------------------------------------------- shares of rows

    def share(self, question: Question, tests: Sequence[ColumnTest]) -> float:
        """Returns the fraction of the rows that pass these tests of a question."""
        equal = [test for test in tests if test.kind == "equal"]
        others = [test for test in tests if test.kind != "equal"]
        return self._equal_share(equal) * self._range_share(question, equal, others)

    def _equal_share(self, tests: Sequence[ColumnTest]) -> float:
        if not tests:
            return 1.0
        names = sorted({test.column for test in tests})
        keys = self.size(HashIndex(names)).keys
        share = float(np.prod([float(test.values) for test in tests])) / max(1, keys)
        # If a value is frequent, the sample gives a better estimate.
        passed, looked = self._sampled([test.node for test in tests if test.node is not None])
        if looked and passed >= 3:
            share = max(share, passed / looked)
        elif looked == self.file.num_rows and all(test.node is not None for test in tests):
            share = passed / max(1, looked)
        return min(1.0, share)

    def _range_share(
        self, question: Question, equal: Sequence[ColumnTest], tests: Sequence[ColumnTest]
    ) -> float:
        if not tests:
            return 1.0
        nodes = [test.node for test in tests if test.node is not None]
        if nodes:
            passed, looked = self._sampled(nodes)
            return max(passed, 0.5) / max(1, looked)
        if question.rows is None:
            return UNKNOWN_RANGE
        # Divide by the share of the equality tests; assume that all ranges are equally selective.
        all_equal = [test for test in question.tests if test.kind == "equal"]
        ranges = len(question.tests) - len(all_equal)
        left = question.rows / max(1, self.file.num_rows) / self._equal_share(all_equal)
        return float(min(1.0, max(left, 0.0)) ** (len(tests) / max(1, ranges)))

    def _sampled(self, nodes: Sequence[Node]) -> tuple[int, int]:
        """Returns the number of sample rows that pass all nodes, and the number of sample rows."""
        if not nodes:
            return 0, 0
        filter = make_filter(all_of(*nodes), self.file.schema)
        counts = self._shares.get(str(filter))
        if counts is None:
            passed = 0
            if len(self._sample):
                batch = FilterColumns(self.file.handle, filter).read(self._sample, 0)
                passed = int(filter.mask(batch).true_count)
            counts = self._shares[str(filter)] = passed, len(self._sample)
        return counts

    # -------------------------------------------------------------- costs

    def current(self, question: Question) -> Cost:
        """Returns the cost with the existing indexes of the file."""
        if question.op != "filter":
            return self._current_by_key(question)
        if question.filter is not None:
            return self._current_by_plan(question)
        best = self._scan(question)
        for index in self.file.handle.indexes:
            kind = "hash" if index.kind == "hash" else "sorted"
            cost = self._by_index(question, index.keys, kind, partial(self._part, index.number))
            if cost is None:
                continue
            if index.number == CLUSTER:  # rows are neighbours
                in_order = cost.rows * SCANNED_ROW + 1
                cost = self._neighbours(question, cost.rows, str(index), in_order)
            if cost.cost < best.cost:
                best = replace(cost, access_path=str(index), number=index.number)
        return best

    def _current_by_key(self, question: Question) -> Cost:
        try:
            index = self.file.handle.choose(question.names, ordered=question.op != "lookup")
        except IndexUnavailableError:
            return self._scan(question)
        rows = self.rows_found(question)
        if index.number == CLUSTER:
            return self._neighbours(question, rows, str(index), rows * SCANNED_ROW + question.keys)
        cost = self._scattered(question, rows, index.kind, self._part(index.number))
        return replace(cost, access_path=str(index), number=index.number)

    def _current_by_plan(self, question: Question) -> Cost:
        assert question.filter is not None
        where = Where(question.filter, self.file.all_rows())
        candidates = candidate_rows(self.file.handle, where)
        if question.filter.matches_nothing:
            return Cost("no row can pass", 0, 0, 0, 0)
        if candidates.secondary:
            (index, _), *_ = candidates.secondary
            rows = float(candidates.rows.num_rows)
            cost = self._scattered(question, rows, index.kind, self._part(index.number))
            return replace(cost, access_path=str(index), number=index.number)
        path = "scan"
        if candidates.index_used:
            path = str(self.file.handle.indexes[0])
        elif candidates.zones_used:
            path = "zone maps"
        return self._scan(question, candidates.rows.ranges, path)

    def with_index(self, question: Question, index: HashIndex | SortedIndex) -> Cost | None:
        """Returns the cost with this index; ``None`` if the index cannot be used."""
        cache_key = (question.text, question.columns, index)
        if cache_key not in self._with_index:
            kind = "hash" if isinstance(index, HashIndex) else "sorted"
            self._with_index[cache_key] = self._by_index(
                question, as_sort_keys(index.columns), kind, lambda: self.size(index).part
            )
        return self._with_index[cache_key]

    def _by_index(
        self, question: Question, keys: tuple[SortKey, ...], kind: str, part: Callable[[], int]
    ) -> Cost | None:
        used = column_tests_answered(question, [output_name(key.column) for key in keys], kind)
        if used is None:
            return None
        if question.op == "filter":
            rows = self.share(question, used) * self.file.num_rows
        else:
            rows = self.rows_found(question)
        return self._scattered(question, rows, kind, part())

    def rows_found(self, question: Question) -> float:
        """Returns the number of rows that match the question."""
        if question.op == "filter":
            return self.share(question, question.tests) * self.file.num_rows
        if question.rows is not None:
            return question.rows
        return self.share(question, question.tests) * self.file.num_rows * question.keys

    def _scattered(self, question: Question, rows: float, kind: str, part: int) -> Cost:
        """Returns the cost of using an index whose rows are scattered across the file."""
        probes = question.keys
        if question.op == "filter":
            probes = max(1, int(np.prod([t.values for t in question.tests if t.kind == "equal"])))
        # The root is part of the read that opens the file; a sorted index also has a directory.
        index_reads = probes if kind == "hash" else probes + 1
        tested, extra = self._columns(question)
        reads, size = self._reads(self._random_rows(rows), [*tested, *extra])
        cost = rows + search_cost(rows, ordered=kind == "sorted") + probes
        return Cost(kind, rows, cost, index_reads + reads, index_reads * part + size)

    def _neighbours(self, question: Question, rows: float, path: str, cost: float) -> Cost:
        """Returns the cost of reading consecutive rows."""
        n = self.file.num_rows
        count = int(min(round(rows), n))
        begin = (n - count) // 2
        ranges = np.array([[begin, begin + count]] if count else [], dtype=np.uint64).reshape(-1, 2)
        tested, extra = self._columns(question)
        reads, size = self._reads(ranges, [*tested, *extra])
        return Cost(path, rows, cost, reads + 1, size)

    def _scan(self, question: Question, ranges: Any = None, path: str = "scan") -> Cost:
        """Returns the cost of a scan of all rows, or of ``ranges``."""
        if ranges is None:
            ranges = np.array([[0, self.file.num_rows]], dtype=np.uint64)
        rows = float((ranges[:, 1] - ranges[:, 0]).sum())
        tested, extra = self._columns(question)
        reads, size = self._reads(ranges, tested)
        if extra:  # only for the rows that pass
            passing = min(rows, self.share(question, question.tests) * self.file.num_rows)
            more, more_bytes = self._reads(self._random_rows(passing), extra)
            reads, size = reads + more, size + more_bytes
        return Cost(path, rows, rows * SCANNED_ROW, reads, size)

    def _columns(self, question: Question) -> tuple[list[Path], list[Path]]:
        """Returns the tested columns, and the other columns to read."""
        schema = self.file.schema
        names = schema.names if question.columns is None else question.columns
        tested: Iterable[Path] = (
            question.filter.columns
            if question.filter is not None
            else (resolve_column(schema, name).path for name in question.names)
        )
        once = list(dict.fromkeys(tested))
        others = [resolve_column(schema, name).path for name in names]
        return once, [path for path in others if path not in once]

    def _random_rows(self, rows: float) -> Any:
        """Returns about ``rows`` rows at random positions, as ranges of one row each."""
        n = self.file.num_rows
        count = int(min(round(rows), n, MOST_POSITIONS))
        random = np.random.default_rng(count)
        begins = np.unique(random.integers(0, max(1, n), count, dtype=np.uint64))
        return np.column_stack((begins, begins + np.uint64(1)))

    def _reads(self, ranges: Any, names: list[Path]) -> tuple[float, float]:
        if not len(ranges):
            return 0.0, 0.0
        read_plan = self.file.handle.projection(tuple(names)).plan_reads(_core.merge(ranges))
        groups = len({group for group, *_ in read_plan})
        return float(groups + sum(entry[3] for entry in read_plan)), float(
            sum(entry[4] for entry in read_plan)
        )

    def _part(self, number: int) -> int:
        """Returns the approximate bytes of an existing index that one lookup reads."""
        if number == CLUSTER:
            return 16 << 10
        kind, _, _, size, _ = self.file.handle.core.indexes[number]
        parts = max(1, self.file.num_rows // (32768 if kind == "hash" else 2048))
        return int(size) // parts


def column_tests_answered(
    question: Question, names: Sequence[str], kind: str
) -> tuple[ColumnTest, ...] | None:
    """Returns the tests that an index on ``names`` answers; ``None`` if it does not help."""
    equal = {test.column: test for test in question.tests if test.kind == "equal"}
    if question.op != "filter":
        tested = question.names
        leading = tuple(names[: len(tested)])
        whole = len(tested) == len(names)
        if question.op == "lookup":
            fits = sorted(leading) == sorted(tested) and (kind != "hash" or whole)
        else:
            fits = kind != "hash" and leading == tested
        return question.tests if fits else None
    if kind == "hash":
        return tuple(equal[n] for n in names) if all(n in equal for n in names) else None
    used: list[ColumnTest] = []
    for name in names:
        if name in equal:
            used.append(equal[name])
            continue
        used += [test for test in question.tests if test.column == name]
        break
    return tuple(used) or None
