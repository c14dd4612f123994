"""Random changes by key against a dict, with every reading method, in both data formats."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from layout_cases import check_samples, harm_blobs

import nimblepy as nb

# A row by its key; the names of columns are those of today.
Rows = dict[int, dict[str, Any]]

KEYS = st.integers(0, 24)
BATCH = st.lists(KEYS, max_size=14, unique=True)
VALUES = st.integers(-3, 3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), BATCH, VALUES),
        st.tuples(st.just("update"), BATCH, VALUES),
        st.tuples(st.just("ignore"), BATCH, VALUES),
        st.tuples(st.just("append"), BATCH, VALUES),
        st.tuples(st.just("delete keys"), BATCH, VALUES),
        st.tuples(st.just("delete where"), BATCH, VALUES),
        st.tuples(st.just("merge"), BATCH, VALUES),
        st.tuples(st.just("transaction"), BATCH, VALUES),
        st.tuples(st.just("compact"), BATCH, VALUES),
        st.tuples(st.just("rename"), BATCH, VALUES),
        st.tuples(st.just("add column"), BATCH, VALUES),
        st.tuples(st.just("partition"), BATCH, VALUES),
        st.tuples(st.just("many"), BATCH, VALUES),
        st.tuples(st.just("lay out"), BATCH, VALUES),
        st.tuples(st.just("optimize"), BATCH, VALUES),
        st.tuples(st.just("lose blobs"), BATCH, VALUES),
        st.tuples(st.just("rollback"), BATCH, VALUES),
    ),
    min_size=1,
    max_size=9,
)


# Layouts by the name of the column of values.
LAYOUTS: list[Callable[[str], Any]] = [
    lambda v: nb.OTree(["k", v], cube_rows=16),
    lambda v: nb.OTree([v, "s"], cube_rows=30, transforms={"s": "hash"}),
    lambda v: nb.ZOrder(["k", v]),
    lambda v: nb.Sorted([v]),
]
MANY = range(1000, 1200)


class Model:
    """The table, and what it should be."""

    def __init__(
        self, directory: str, data_format: Any, cluster_by: Any, partition: Any, layout: int | None
    ) -> None:
        self.value = "v"
        schema = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
        lake = nb.connect(Path(directory) / "lake")
        self.table = lake.create_table(
            "a.b",
            schema,
            primary_key="k",
            cluster_by=cluster_by,
            partition_by=() if layout is not None else partition,
            layout=None if layout is None else LAYOUTS[layout]("v"),
            data_format=data_format,
        )
        self.lake = lake
        self.partitioned = bool(partition) and layout is None
        self.layout = layout
        self.rows: Rows = {}
        self.past: list[tuple[int, Rows]] = []
        self.added = 0

    def blank(self, key: int) -> dict[str, Any]:
        return {"k": key, self.value: None, "s": None} | dict.fromkeys(self._more(), None)

    def _more(self) -> list[str]:
        return [f"x{i}" for i in range(self.added)]

    def data(self, keys: list[int], value: int) -> pa.Table:
        return pa.table(
            {
                "s": [f"s{value}"] * len(keys),
                self.value: pa.array([value] * len(keys), pa.int64()),
                "k": pa.array(keys, pa.int64()),
            }
        )

    def step(self, what: str, keys: list[int], value: int) -> None:
        before = {key: dict(row) for key, row in self.rows.items()}
        new = {key: self.blank(key) | {self.value: value, "s": f"s{value}"} for key in keys}
        done: nb.Commit | None = None
        inserted = [key for key in keys if key not in before]
        matched = [key for key in keys if key in before]
        figures = (len(inserted), len(matched), 0)
        table = self.table
        if what == "upsert":
            done = table.upsert(self.data(keys, value))
            self.rows |= new
        elif what == "update":
            done = table.upsert(self.data(keys, value), update=[self.value])
            self.rows |= {
                k: before[k] | {self.value: value} if k in before else new[k] for k in keys
            }
        elif what == "ignore":
            done = table.upsert(self.data(keys, value), when_matched="ignore")
            self.rows |= {key: new[key] for key in inserted}
            figures = (len(inserted), 0, 0)
        elif what == "append":
            if matched:
                with pytest.raises(nb.DuplicateKeyError):
                    table.append(self.data(keys, value))
            else:
                done = table.append(self.data(keys, value))
                self.rows |= new
        elif what == "delete keys":
            done = table.delete(keys=keys) if keys else None
            for key in matched:
                del self.rows[key]
            figures = (0, 0, len(matched))
        elif what == "delete where":
            done = table.delete(f"{self.value} = {value}")
            gone = [key for key, row in before.items() if row[self.value] == value]
            for key in gone:
                del self.rows[key]
            figures = (0, 0, len(gone))
        elif what == "merge":
            done, figures = self._merge(keys, value, before, new)
        elif what == "transaction":
            with table.transaction() as tx:
                tx.upsert(self.data(keys, value), update=["s"])
                tx.delete(keys=[0, 1])
                assert tx.get(0) is None
                tx.upsert(self.data([2], value))
                assert tx.get(2)[self.value] == value
            self.rows |= {
                k: before[k] | {"s": f"s{value}"} if k in before else new[k] for k in keys
            }
            self.rows.pop(0, None)
            self.rows.pop(1, None)
            self.rows[2] = self.blank(2) | {self.value: value, "s": f"s{value}"}
        elif what == "compact":
            table.compact()
        elif what == "rename":
            name = f"v{len(self.value)}"
            with table.alter() as a:
                a.rename_column(self.value, name)
            self._renamed(name)
        elif what == "add column":
            with table.alter() as a:
                a.add_column(f"x{self.added}", pa.int64(), default=value)
            for row in self.rows.values():
                row[f"x{self.added}"] = value
            self.past.clear()
            self.added += 1
        elif what == "partition":
            fields = ["bucket(3, k)"] if value > 0 else [self.value] if value else []
            with table.alter() as a:
                if fields and self.layout is not None:
                    a.layout(None)
                    self.layout = None
                a.partition_by(*fields)
            self.partitioned = bool(fields)
        elif what == "many":
            spread = pa.array([(key * 7 + value) % 90 for key in MANY], pa.int64())
            table.upsert(pa.table({"k": list(MANY), self.value: spread}))
            for key, spread_value in zip(MANY, spread.to_pylist(), strict=True):
                self.rows[key] = self.blank(key) | {self.value: spread_value}
        elif what == "lay out":
            self.layout = abs(value) if value < len(LAYOUTS) - 1 else None
            with table.alter() as a:
                a.partition_by()
                a.layout(None if self.layout is None else LAYOUTS[self.layout](self.value))
            self.partitioned = False
        elif what == "optimize":
            table.optimize_layout(budget_bytes=1 << (value + 12))
        elif what == "lose blobs":
            harm_blobs(table, "gone" if value > 0 else "cut" if value else "flipped")
            self.table = self.lake.table("a.b")
        elif what == "rollback" and self.past:
            snapshot, rows = self.past[value % len(self.past)]
            table.rollback(snapshot)
            self.rows = {key: dict(row) for key, row in rows.items()}
            self.past.clear()
        if done is not None:
            assert (done.rows_inserted, done.rows_updated, done.rows_deleted) == figures
        if table.snapshot is not None:
            kept = {key: dict(row) for key, row in self.rows.items()}
            self.past.append((table.snapshot, kept))

    def _renamed(self, name: str) -> None:
        for row in self.rows.values():
            row[name] = row.pop(self.value)
        self.value = name
        self.past.clear()

    def _merge(self, keys: list[int], value: int, before: Rows, new: Rows) -> Any:
        v = self.value
        done = (
            self.table.merge(self.data(keys, value))
            .when_matched(delete=True, condition=f"source.{v} < target.{v}")
            .when_matched(update=[v], condition=f"target.{v} IS NOT NULL AND source.k % 2 = 0")
            .when_not_matched(condition="source.k > 3")
            .when_not_matched_by_source(condition=f"target.{v} = 3 AND target.k > 20")
            .execute()
        )
        inserted = updated = deleted = 0
        for key in keys:
            row = before.get(key)
            if row is None:
                if key > 3:
                    self.rows[key] = new[key]
                    inserted += 1
            elif row[v] is not None and value < row[v]:
                del self.rows[key]
                deleted += 1
            elif row[v] is not None and key % 2 == 0:
                self.rows[key] = row | {v: value}
                updated += 1
        for key, row in before.items():
            if key not in keys and key > 20 and row[v] == 3:
                del self.rows[key]
                deleted += 1
        return done, (inserted, updated, deleted)

    # ------------------------------------------------------------------ reading

    def check(self) -> None:
        table = self.table
        columns = ["k", self.value, "s", *self._more()]
        wanted = [self.rows[key] for key in sorted(self.rows)]
        by_key: Callable[[dict[str, Any]], Any] = lambda row: row["k"]  # noqa: E731
        assert sorted(table.to_table(columns).to_pylist(), key=by_key) == [
            {name: row[name] for name in columns} for row in wanted
        ]
        assert table.num_rows == len(wanted) == table.count_rows()
        asked = [*range(-1, 26, 2), MANY[3], MANY[100]]
        found = [self.rows[key] for key in asked if key in self.rows]
        assert [row["k"] for row in table.lookup(asked).to_pylist()] == [r["k"] for r in found]
        assert table.contains(asked).to_pylist() == [key in self.rows for key in asked]
        for key in (2, 5, 30):
            got = table.get(key)
            assert (None if got is None else got[self.value]) == (
                self.rows[key][self.value] if key in self.rows else None
            )
            assert (got is not None) == (key in self.rows)
        filter = f"{self.value} >= 0 AND k < 15"
        passing = [r["k"] for r in wanted if (r[self.value] or 0) >= 0 and r["k"] < 15
                   and r[self.value] is not None]  # fmt: skip
        assert sorted(table.to_table(["k"], filter)["k"].to_pylist()) == passing
        assert table.count_rows(filter) == len(passing)
        if [key.column for key in table.cluster_by] == ["k"]:
            middle = table.range(4, 12)["k"].to_pylist()
            assert middle == [row["k"] for row in wanted if 4 <= row["k"] < 12]
            last = table.range(limit=3, reverse=True)["k"].to_pylist()
            assert last == [row["k"] for row in wanted[::-1][:3]]
        joined = table.index_join(pa.table({"k": [3, 4, 99]}), on="k", columns=["s"])
        assert joined["k"].to_pylist() == [key for key in (3, 4) if key in self.rows]
        layout = None if self.layout is None else LAYOUTS[self.layout](self.value)
        assert table.layout_by == layout
        check_samples(table, 0.4, len(wanted), filter)
        for snapshot, rows in self.past[-3:]:
            assert table.at(snapshot=snapshot).sample(1, seed=2).num_rows == len(rows)
            then = table.at(snapshot=snapshot).to_table(["k", "s"]).to_pylist()
            assert sorted((row["k"], row["s"] or "") for row in then) == sorted(
                (row["k"], row["s"] or "") for row in rows.values()
            )


def _check(
    data_format: str, cluster_by: Any, partition: Any, layout: int | None, steps: list[Any]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        model = Model(directory, data_format, cluster_by, partition, layout)
        for what, keys, value in steps:
            model.step(what, keys, value)
        model.check()


EXAMPLES = {
    "data_format": st.sampled_from(["nimble", "parquet"]),
    "cluster_by": st.sampled_from([None, ["v"], ["v", "k"], ["s"]]),
    "partition": st.sampled_from([(), ("bucket(3, k)",), ("v",)]),
    "layout": st.none() | st.integers(0, len(LAYOUTS) - 1),
    "steps": STEPS,
}
_NEVER_MIND = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=12, deadline=None, suppress_health_check=_NEVER_MIND)
@given(**EXAMPLES)
def test_changes_by_key(
    data_format: str, cluster_by: Any, partition: Any, layout: int | None, steps: Any
) -> None:
    _check(data_format, cluster_by, partition, layout, steps)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=_NEVER_MIND,
          phases=[Phase.generate, Phase.shrink])  # fmt: skip
@given(**EXAMPLES)
def test_many_changes_by_key(
    data_format: str, cluster_by: Any, partition: Any, layout: int | None, steps: Any
) -> None:
    _check(data_format, cluster_by, partition, layout, steps)
