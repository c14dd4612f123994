"""Statuses that need a proof: what is not proved is neither verified nor contradicted."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import nimblepy as nb
from nimblepy.cli.main import app
from nimblepy.duck.aggregate import aggregate
from nimblepy.table.base.sketch import LARGEST, Sketch, hashes_of
from nimblepy.table.claims import check
from nimblepy.table.claims.references import Orphans, refutes, supports
from nimblepy.table.describe import CatalogLake


@pytest.fixture
def lake(tmp_path: Path) -> nb.Catalog:
    return nb.connect(tmp_path / "lake")


def status(table: nb.Table, kind: str, column: str | None = None, **given: Any) -> str:
    (found,) = [c for c in table.check(**given) if (c.claim.kind, c.claim.column) == (kind, column)]
    return found.status


def append_by_pyiceberg(lake: nb.Catalog, name: str, rows: pa.Table) -> None:
    lake.iceberg.load_table(name).append(rows)


ROWS = pa.table({"k": pa.array(range(6000), pa.int64())})


def test_keys_of_other_engines_are_not_trusted_after_their_commits_expired(
    lake: nb.Catalog,
) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False)])
    table = lake.create_table("a.b", schema, primary_key="k", data_format="parquet")
    table.append(ROWS)
    table.describe(unique=["k"])
    assert status(table, "unique") == "verified"
    append_by_pyiceberg(lake, "a.b", pa.table({"k": [5]}, schema))
    table.refresh()
    assert status(table, "unique") == "unchecked"
    table.append(pa.table({"k": [9001]}))
    table.append(pa.table({"k": [9002]}))
    table.expire(keep=1, older_than=dt.timedelta(0))
    assert len(table.snapshots()) == 1
    assert status(table, "unique") == "unchecked"
    assert status(table, "unique", deep=True) == "contradicted"


def test_keys_stay_proved_after_commits_expired(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", ROWS.schema, primary_key="k")
    table.append(ROWS)
    table.upsert(pa.table({"k": [1, 7000]}))
    table.describe(unique=["k"])
    for _ in range(2):
        table.delete("k = 3")
        table.append(pa.table({"k": [3]}))
        table.compact(where_needed=False)
        table.rewrite_manifests()
        table.expire(keep=1, older_than=dt.timedelta(0))
        assert len(table.snapshots()) == 1
        assert status(table, "unique") == "verified"


def test_a_key_that_another_engine_declared_is_not_proved(lake: nb.Catalog) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False)])
    table = lake.create_table("a.b", schema, data_format="parquet")
    table.append(pa.concat_tables([ROWS, ROWS.slice(0, 1)]).cast(schema))
    with lake.iceberg.load_table("a.b").update_schema() as update:
        update.set_identifier_fields("k")
    table.refresh()
    assert table.primary_key == ["k"]
    table.describe(unique=["k"])
    assert status(table, "unique") == "unchecked"
    table.append(pa.table({"k": [9000]}))
    assert status(table, "unique") == "unchecked"


def test_several_values_do_not_prove_a_snapshot_table(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", {"day": [1, 2, 2], "k": [1, 2, 3]})
    table.analyze()
    table.describe(columns={"day": nb.SnapshotOf(), "k": nb.SnapshotOf()})
    assert {status(table, "snapshot_of", name) for name in ("day", "k")} == {"unverifiable"}
    one = lake.create_table("a.c", {"day": [1, 1]})
    one.analyze()
    one.describe(columns={"day": nb.SnapshotOf()})
    assert status(one, "snapshot_of", "day") == "suspect"


def test_sampled_keys_do_not_prove_that_none_is_missing(lake: nb.Catalog) -> None:
    keys = np.arange(30_000)
    parent = lake.create_table("a.parent", {"id": keys}, primary_key="id")
    child = lake.create_table("a.child", {"p": np.append(keys, 30_001)})
    parent.analyze()
    child.analyze()
    child.describe(columns={"p": nb.References("a.parent")}, allow_contradicted=True)
    (found,) = child.check()
    assert found.status in ("unchecked", "contradicted")  # contradicted if the sketch has the key
    assert status(child, "references", "p", deep=True) == "contradicted"
    child.describe(columns={"p": nb.References("a.parent", orphans=0.05)})
    assert status(child, "references", "p") == "verified"


def test_samples_prove_shares_with_few_errors() -> None:
    """1,000 draws at the limit: none is called verified or contradicted."""
    random = np.random.default_rng(1)
    for allowed in (0.001, 0.01, 0.1):
        draws = random.binomial(4096, allowed, 1_000)
        for missing in draws.tolist():
            orphans = Orphans(missing, 4096, all=False)
            assert not supports(orphans, allowed)
            assert not refutes(orphans, allowed)
    assert supports(Orphans(0, 4096, all=False), 0.01)
    assert not supports(Orphans(0, 4096, all=False), 0.0)
    assert not supports(Orphans(0, 9_000, all=False, by_rows=True), 0.01)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_zeros_of_both_signs_are_one_value(lake: nb.Catalog, kind: pa.DataType) -> None:
    table = lake.create_table("a.b", pa.table({"x": pa.array([-0.0, 1.0], kind)}))
    table.analyze()
    table.describe(columns={"x": [nb.Values([0.0, 1.0]), nb.Samples([0.0])]})
    assert status(table, "values", "x") == status(table, "samples", "x") == "verified"
    table.append(pa.table({"x": pa.array([0.0], kind)}))
    table.describe(columns={"x": nb.Values([-0.0, 1.0])}, unique=["x"], allow_contradicted=True)
    assert status(table, "values", "x") == "verified"
    assert status(table, "unique") == "contradicted"


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_negative_zeros_in_sketches_of_others(kind: pa.DataType) -> None:
    (zero,) = hashes_of(pa.array([0.0], kind)).tolist()
    others = hashes_of(pa.array(np.arange(1, 50), kind))
    (negative,) = hashes_of(pa.array([-0.0], kind)).tolist()
    assert negative != zero
    stored = Sketch(np.union1d(others, np.array([negative], np.uint64)))
    folded = stored.with_one_zero(kind)
    assert set(folded.hashes.tolist()) == {zero, *others.tolist()}
    assert folded.theta == LARGEST
    assert stored.with_one_zero(pa.int64()) is stored
    # A sketch that stops below the hash of -0.0 may lack a zero that the column has.
    below = stored.hashes[stored.hashes < np.uint64(negative)]
    cut = Sketch(below, negative).with_one_zero(kind)
    assert cut.theta <= zero or negative < zero
    assert zero not in cut.hashes


def test_late_commits_with_an_old_schema_do_not_date_files(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", {"k": [1]}, data_format="parquet")
    with table.alter() as a:
        a.add_column("x", pa.int64())
    # A writer without statistics has the column.
    with table.alter() as a:
        a.set_properties({"write.metadata.metrics.default": "none"})
    append_by_pyiceberg(lake, "a.b", pa.table({"k": [2], "x": [5]}))
    table.refresh()
    assert table.facts()["x"].nulls is None
    _commit_with_schema(lake, 0)
    table.refresh()
    assert table.to_table().num_rows == 3
    assert table.facts()["x"].nulls is None, "a file with the column was taken for one without"
    table.describe(columns={"x": nb.NotNull(False)})
    assert status(table, "not_null", "x") == "unchecked" or table.facts()["x"].nulls != 3


def _commit_with_schema(lake: nb.Catalog, schema_id: int) -> None:
    """Appends a row, as a writer would that has not seen the newest schema."""
    append_by_pyiceberg(lake, "a.b", pa.table({"k": [3]}))
    loaded = lake.iceberg.load_table("a.b")
    path = loaded.metadata_location.removeprefix("file://")
    text = json.loads(Path(path).read_text())
    text["snapshots"][-1]["schema-id"] = schema_id
    Path(path).write_text(json.dumps(text))


def test_checks_of_copied_lakes_are_kept_apart(tmp_path: Path) -> None:
    lake = nb.connect(tmp_path / "one")
    table = lake.create_table("a.b", {"k": [1]})
    table.describe("Like `a.other`.", columns={"k": nb.NotNull()})
    assert status(table, "description") == "unchecked"
    lake.create_table("a.other", {"k": [1]})
    assert status(table, "description") == "unverifiable"  # the result was cached
    lake.drop_table("a.other")
    assert status(table, "description") == "unchecked"
    first, second = nb.connect(tmp_path / "one"), nb.connect(tmp_path / "two", create=True)
    assert CatalogLake(first).key != CatalogLake(second).key


def test_unknown_names_are_not_accusations(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", {"k": [1], "old": [1], "gone": [1]})
    lake.create_table("a.other", {"k": [1]})
    done = table.describe("Has `gone`, see `a.other`. Never had `tihs`.", rules=["old = k"])
    assert done.checks.of("unchecked")
    assert status(table, "description") == "unchecked"
    with table.alter() as a:
        a.drop_column("old")
    assert [c.status for c in table.check() if c.claim.kind == "rule"] == ["suspect"]
    with table.alter() as a:
        a.drop_column("gone")
    assert status(table, "description") == "contradicted"  # it was a name when this was said
    with table.alter() as a:
        a.set_comment("Has `gone` and `tihs`.")  # of another tool: nothing says that it was
    assert status(table, "description") == "suspect"


def test_rules_that_cannot_be_read_are_not_accusations(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", {"k": [1]})
    with table.alter() as a:
        text = '{"claims": [{"kind": "rule", "value": "k >="}, {"kind": "rule", "value": "z = 1"}]}'
        a.store_claims({"nimblepy.claims.table": text})
    assert [c.status for c in table.check()] == ["unchecked", "unchecked"]
    assert all("cannot be evaluated" in str(c.reason) for c in table.check())


def test_names_of_unclaimed_values_are_read_of_limited_rows(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create_table("a.b", {"code": ["a", "b"] * 50_000 + ["c"]})
    table.analyze()
    table.describe(columns={"code": nb.Values(["a"])}, allow_contradicted=True)
    monkeypatch.setattr(check, "CONFIRMED_ROWS", 1_000)
    (found,) = table.check().contradicted
    assert found.observed is not None
    assert "b (in 1,000 rows)" in found.observed


def test_a_merge_may_change_keys(lake: nb.Catalog) -> None:
    rows = pa.table({"k": pa.array(range(4), pa.int64()), "v": pa.array(range(4), pa.int64())})
    table = lake.create_table("a.b", rows, primary_key="k")
    table.analyze()
    changed = table.merge([{"v": 3, "new": 9}], on="v").when_matched(update={"k": "new"})
    assert changed.execute().rows_updated == 1
    table.describe(columns={"k": nb.Values([0, 1, 2, 9])})
    assert status(table, "values", "k") == "verified"
    with pytest.raises(nb.InvalidArgumentError, match="no row has 3"):
        table.describe(columns={"k": nb.Samples([3])})
    table.analyze()
    table.upsert([{"k": 0, "v": 7}])  # keeps the keys, so the sketch of the keys stays exact
    assert status(table, "values", "k") == "verified"


def test_values_of_uuids_and_times(lake: nb.Catalog) -> None:
    names = [uuid.UUID(int=i) for i in range(3)]
    schema = pa.schema([("k", pa.int64()), ("u", pa.uuid()), ("at", pa.time64("us"))])
    table = lake.create_table("a.b", schema, primary_key="k")
    table.append([{"k": i, "u": names[i], "at": dt.time(i)} for i in range(3)])
    table.analyze()
    hours = [dt.time(0), dt.time(1), dt.time(2)]
    given: Any = {"u": nb.Values(names), "at": [nb.Values(hours), nb.Range(*hours[::2])]}
    table.describe(columns=given)
    assert {c.status for c in table.check()} == {"verified"}
    table.delete("k = 2")
    assert {c.status for c in table.check()} <= {"verified", "suspect"}
    other = uuid.UUID(int=9)
    table.append([{"k": 9, "u": other, "at": dt.time(9)}])
    found = {(c.claim.kind, c.claim.column): c for c in table.check()}
    assert {check.status for check in found.values()} == {"contradicted"}
    assert str(other) in str(found["values", "u"].observed)
    with pytest.raises(nb.InvalidArgumentError, match=str(other)):
        table.describe(columns={"u": nb.Values(names)})


def test_times_without_a_zone_are_in_the_zone_of_the_column(lake: nb.Catalog) -> None:
    kind = pa.timestamp("us", "Europe/Berlin")
    noon = dt.datetime(2026, 1, 1, 12)
    table = lake.create_table("a.b", pa.schema([("k", pa.int64()), ("at", kind)]), primary_key="k")
    table.append([{"k": i, "at": noon + dt.timedelta(hours=i)} for i in range(3)])
    table.analyze()
    for hours in (0, 2):
        table.describe(columns={"at": nb.Samples([noon + dt.timedelta(hours=hours)])})
        assert status(table, "samples", "at") == "verified"
    with pytest.raises(nb.InvalidArgumentError, match="no row has"):
        table.describe(columns={"at": nb.Samples([noon.replace(tzinfo=dt.UTC, hour=5)])})
    times = pa.schema([("at", pa.timestamp("us", "UTC")), ("v", pa.int64())])
    parent = lake.create_table("a.parent", times, primary_key="at")
    parent.append([{"at": row["at"], "v": 1} for row in table.to_table().to_pylist()])
    parent.analyze()
    table.describe(columns={"at": nb.References("a.parent")})
    assert status(table, "references", "at") == "verified"


def test_deletes_are_not_fresh_rows(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", ROWS, primary_key="k")
    table.describe(fresh="1s")
    time.sleep(1.1)
    table.delete(keys=[1])
    assert status(table, "fresh") == "overdue"
    table.append(pa.table({"k": [9001]}))
    assert status(table, "fresh") == "verified"


def test_a_column_of_reconcile_is_renamed(lake: nb.Catalog) -> None:
    one = lake.create_table("a.b", pa.table({"k": [1], "v": [2]}), primary_key="k")
    other = lake.create_table("a.c", pa.table({"k": [1], "w": [2]}), primary_key="k")
    one.describe(reconcile=[nb.Reconcile("sum(v)", "a.c", "sum(w)")])
    assert status(one, "reconcile", deep=True) == "verified"
    with other.alter() as a:
        a.rename_column("w", "x")
    assert status(one, "reconcile", deep=True) == "suspect"
    with pytest.raises(nb.InvalidArgumentError, match="differ only in case"):
        aggregate(pa.table({"v": [1], "V": [2]}).to_reader(), "sum(v)")


def test_one_table_cannot_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = str(tmp_path / "lake")
    lake = nb.connect(place)
    lake.create_table("a.good", pa.table({"k": [1]})).describe("Good rows.")
    bad = lake.create_table("a.bad", pa.table({"k": [1]}))
    shutil.rmtree(bad.location.removeprefix("file://"))
    lake = nb.connect(place)
    assert list(lake.check()) == ["a.good"]
    assert lake.describe().column("table").to_pylist() == ["a.good"]
    assert lake.find("good").column("table").to_pylist() == ["a.good"]
    assert "a.bad: left out" in caplog.text
    shown = CliRunner().invoke(app, ["describe", place, "--check"])
    assert shown.exit_code == 2
    assert "a.good" in shown.stdout
    assert "1 of 2 tables cannot be checked" in shown.stderr
