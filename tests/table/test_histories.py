"""Random changes of tables against plain rows, through every reading method."""

from __future__ import annotations

import shutil
import tempfile
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from layout_cases import HARMS, Harm, LayoutCase, check_samples, harm_blobs, layouts

import nimblepy as nb

pytestmark = pytest.mark.model

pytest.importorskip("pyiceberg")

_KEYS = st.integers(-6, 30)
_ROWS = st.lists(
    st.tuples(_KEYS, st.none() | st.sampled_from(["a", "bb", "ccc"]), st.none() | st.floats(-2, 2)),
    max_size=12,
)
_PARTITIONS = st.sampled_from(
    [(), ("s",), ("bucket(2, k)",), ("truncate(5, k)",), ("truncate(1, s)", "k")]
)


class Tables(RuleBasedStateMachine):
    """A table and the rows that it should have, as dicts of present columns."""

    data_format: Any = "nimble"

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp()
        self.lake = nb.connect(f"{self.directory}/lake")
        self.names = {"k": "k", "s": "s", "x": "x"}  # role -> name now
        self.rows: list[dict[str, Any]] = []  # by role
        self.past: dict[int, tuple[list[dict[str, Any]], dict[str, str]]] = {}
        self.number = 0
        self.layout: LayoutCase | None = None
        self.partitioned = False

    def teardown(self) -> None:
        shutil.rmtree(self.directory)

    @initialize(partition=_PARTITIONS, layout=st.none() | layouts(), clustered=st.booleans())
    def create(
        self, partition: tuple[str, ...], layout: LayoutCase | None, clustered: bool
    ) -> None:
        schema = pa.schema({"k": pa.int32(), "s": pa.string(), "x": pa.float64()})
        self.table = self.lake.create_table(
            "a.b",
            schema,
            cluster_by="k" if clustered else None,
            partition_by=() if layout else partition,
            layout=layout[1](self.names) if layout else None,
            data_format=self.data_format,
            properties={"write.target-file-size-bytes": "100000"},
        )
        self.layout, self.partitioned = layout, bool(partition) and not layout

    def _data(self, rows: list[tuple[Any, ...]]) -> tuple[list[dict[str, Any]], pa.Table]:
        found = [
            {
                role: value
                for role, value in zip(("k", "s", "x"), row, strict=True)
                if role in self.names
            }
            for row in rows
        ]
        for row in found:
            row.update({role: None for role in self.names if role not in row})
        schema = pa.schema([self.table.schema.field(name) for name in self.names.values()])
        shown = [{self.names[role]: value for role, value in row.items()} for row in found]
        return found, pa.Table.from_pylist(shown, schema=schema.remove_metadata())

    def _remember(self) -> None:
        if self.table.snapshot is not None:
            self.past[self.table.snapshot] = ([dict(row) for row in self.rows], dict(self.names))

    @rule(rows=_ROWS)
    def append(self, rows: list[tuple[Any, ...]]) -> None:
        found, data = self._data(rows)
        assert self.table.append(data).rows_inserted == len(found)
        self.rows += found
        self._remember()

    @rule(rows=st.integers(50, 300), seed=st.integers(0, 99))
    def append_many(self, rows: int, seed: int) -> None:
        """Enough for inner cubes."""
        rng = np.random.default_rng(seed)
        texts = ["a", "bb", "ccc", None]
        values = [None, float("nan"), 0.5, -1.5]
        self.append(
            [
                (int(k), texts[i % 4], values[i // 4] if i < 16 else float(x))
                for i, (k, x) in enumerate(
                    zip(rng.integers(-6, 30, rows), rng.normal(size=rows), strict=True)
                )
            ]
        )

    def _test(self, low: int, text: str | None) -> tuple[str, Any]:
        name = self.names["k"]
        if text is None or "s" not in self.names:
            return f"{name} >= {low} AND {name} < {low + 9}", lambda r: low <= r["k"] < low + 9
        return (
            f"{self.names['s']} = '{text}' OR {name} = {low}",
            lambda r: r["s"] == text or r["k"] == low,
        )

    @rule(low=_KEYS, text=st.none() | st.sampled_from(["a", "bb"]))
    def delete(self, low: int, text: str | None) -> None:
        sql, passes = self._test(low, text)
        left = [row for row in self.rows if not passes(row)]
        assert self.table.delete(sql).rows_deleted == len(self.rows) - len(left)
        self.rows = left
        self._remember()

    @rule(rows=_ROWS, low=st.none() | _KEYS)
    def overwrite(self, rows: list[tuple[Any, ...]], low: int | None) -> None:
        found, data = self._data(rows)
        if low is None:
            self.table.overwrite(data)
            self.rows = found
        else:
            sql, passes = self._test(low, None)
            self.table.overwrite(data, filter=sql)
            self.rows = [row for row in self.rows if not passes(row)] + found
        self._remember()

    @rule(what=st.integers(0, 4), default=st.none() | st.integers(-3, 3))
    def alter(self, what: int, default: int | None) -> None:
        self.number += 1
        new = f"c{self.number}"
        with self.table.alter() as a:
            if what == 0:
                role = sorted(self.names)[self.number % len(self.names)]
                a.rename_column(self.names[role], new)
                self.names[role] = new
            elif what == 1:
                a.add_column(new, pa.int64(), default=default, first=bool(self.number % 2))
                self.names[new] = new
                for row in self.rows:
                    row[new] = default
            elif what == 2 and "x" in self.names:
                if self.layout and "x" in self.layout[0]:
                    with pytest.raises(nb.InvalidArgumentError, match="is part of the layout"):
                        a.drop_column(self.names["x"])
                    return
                a.drop_column(self.names.pop("x"))
                for row in self.rows:
                    row.pop("x")
            elif what == 3 and self.table.schema.field(self.names["k"]).type == pa.int32():
                a.widen(self.names["k"], pa.int64())
            elif what == 4:
                a.move_column(self.names["k"], first=True)

    @rule(partition=_PARTITIONS)
    def partition(self, partition: tuple[str, ...]) -> None:
        fields = [
            text.replace("k", self.names["k"]).replace("s", self.names["s"])
            if "(" not in text
            else f"{text.partition('(')[0]}({self._inside(text)})"
            for text in partition
        ]
        with self.table.alter() as a:
            if self.layout and fields:
                with pytest.raises(nb.InvalidArgumentError, match="a table with a layout"):
                    a.partition_by(*fields)
                return
            a.partition_by(*fields)
        self.partitioned = bool(fields)

    @rule(data=st.data())
    def lay_out(self, data: st.DataObject) -> None:
        layout = data.draw(st.none() | layouts("".join(set(self.names) & set("ksx"))))
        with self.table.alter() as a:
            if layout and self.partitioned:
                with pytest.raises(nb.InvalidArgumentError, match="cannot be combined with"):
                    a.layout(layout[1](self.names))
                a.partition_by()
                self.partitioned = False
            a.layout(layout[1](self.names) if layout else None)
        self.layout = layout

    @rule(where_needed=st.booleans())
    def compact(self, where_needed: bool) -> None:
        self.table.compact(where_needed=where_needed)
        self._remember()

    @rule(budget=st.none() | st.integers(1, 50_000))
    def optimize(self, budget: int | None) -> None:
        self.table.optimize_layout(budget_bytes=budget)
        self._remember()

    @rule(harm=HARMS)
    def lose_blobs(self, harm: Harm) -> None:
        before = self._sorted(self.table.sample(0.3, seed=1).to_pylist())
        harm_blobs(self.table, harm)
        self.table = nb.connect(f"{self.directory}/lake").table("a.b")
        assert self._sorted(self.table.sample(0.3, seed=1).to_pylist()) == before

    @rule(fraction=st.floats(0, 1), seed=st.integers(0, 99), low=_KEYS)
    def sample(self, fraction: float, seed: int, low: int) -> None:
        check_samples(self.table, fraction, seed, self._test(low, None)[0])

    def _inside(self, text: str) -> str:
        width, _, role = text.partition("(")[2][:-1].partition(", ")
        return f"{width}, {self.names[role]}"

    @rule(data=st.data())
    def look_back(self, data: st.DataObject) -> None:
        if not self.past:
            return
        number = data.draw(st.sampled_from(sorted(self.past)))
        rows, _ = self.past[number]
        old = self.table.at(snapshot=number)
        assert old.num_rows == len(rows)
        assert len(old.to_table()) == len(rows)
        assert len(old.sample(1, seed=1)) == len(rows)

    @invariant()
    def reads(self) -> None:
        if not hasattr(self, "table"):
            return
        shown = [{name: row[role] for role, name in self.names.items()} for row in self.rows]
        key = self.names["k"]
        assert self.table.layout_by == (self.layout[1](self.names) if self.layout else None)
        wanted = self._sorted(shown)
        found = self.table.to_table()
        assert sorted(found.schema.names) == sorted(self.names.values())
        assert self._sorted(found.to_pylist()) == wanted
        assert self.table.num_rows == self.table.count_rows() == len(shown)
        sql, passes = self._test(3, "a")
        assert self.table.count_rows(sql) == sum(bool(passes(row)) for row in self.rows)
        assert self._sorted(self.table.to_table(filter=sql).to_pylist()) == self._sorted(
            [
                {name: row[role] for role, name in self.names.items()}
                for row in self.rows
                if passes(row)
            ]
        )
        if self.table.cluster_by:
            self._read_by_key(shown, key)

    def _read_by_key(self, shown: list[dict[str, Any]], key: str) -> None:
        asked = [-3, 0, 4, 4, 25, 99]
        counts = [sum(row[key] == k for row in shown) for k in asked]
        assert self.table.count(asked).to_pylist() == counts
        assert self.table.lookup(asked, probe_row="p").column("p").to_pylist() == [
            i for i, n in enumerate(counts) for _ in range(n)
        ]
        for k in (0, 4):
            mine = self._sorted([row for row in shown if row[key] == k])
            got = self.table.get(k)
            assert (self._sorted([got])[0] in mine) if got is not None else not mine
        assert self.table.range(-2, 12).column(key).to_pylist() == sorted(
            row[key] for row in shown if -2 <= row[key] < 12
        )
        backwards = self.table.range(None, 12, reverse=True, limit=4, columns=[key])
        below = sorted((row[key] for row in shown if row[key] < 12), reverse=True)
        assert backwards.column(key).to_pylist() == below[:4]
        joined = self.table.index_join(pa.table({"q": asked}), on={"q": key}, how="anti")
        assert joined.num_rows == counts.count(0)

    @staticmethod
    def _sorted(rows: list[dict[str, Any]]) -> list[str]:
        return sorted(repr(sorted(row.items())) for row in rows)


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
@pytest.mark.parametrize("examples", [8, pytest.param(60, marks=pytest.mark.slow)])
def test_random_changes(data_format: Any, examples: int) -> None:
    machine = type("Of" + data_format, (Tables,), {"data_format": data_format})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=10,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
