"""Claims: their storage, and the statuses of their checks."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import threading
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy.table.claims import sketches
from nimblepy.table.claims.check import check_all
from nimblepy.table.claims.kinds import age_seconds
from nimblepy.table.describe import CatalogLake, subject_of

ORDERS = pa.table(
    {
        "order_id": range(200),
        "status": ["P", "X"] * 100,
        "customer_id": [i % 40 for i in range(200)],
        "net": [float(i) for i in range(200)],
        "day": [dt.date(2024, 1, 1 + i % 20) for i in range(200)],
        "price": [Decimal(i).scaleb(-2) for i in range(200)],
        "note": [None, "text"] * 100,
    }
)
CUSTOMERS = pa.table({"id": range(40), "name": [f"n{i}" for i in range(40)]})


@pytest.fixture
def orders(lake: nb.Catalog) -> nb.Table:
    customers = lake.create_table("shop.customers", CUSTOMERS, primary_key="id")
    customers.analyze()
    table = lake.create_table("shop.orders", ORDERS, primary_key="order_id")
    table.analyze()
    return table


def status(table: nb.Table, kind: str, column: str | None = None, *, deep: bool = False) -> str:
    (check,) = [
        c for c in table.check(deep=deep) if (c.claim.kind, c.claim.column) == (kind, column)
    ]
    return check.status


def observed(table: nb.Table, kind: str, column: str | None = None, *, deep: bool = False) -> str:
    return next(
        str(c.observed)
        for c in table.check(deep=deep)
        if (c.claim.kind, c.claim.column) == (kind, column)
    )


# ---------------------------------------------------------------------- what is stored


def test_describe_and_read_back(lake: nb.Catalog, orders: nb.Table) -> None:
    done = orders.describe(
        "Orders as placed.",
        columns={
            "status": nb.Values({"P": "placed", "X": "cancelled"}),
            "customer_id": nb.References("shop.customers", orphans=0.0),
            "net": [nb.Unit("euro", range=(0, 200)), "net of tax"],
            "day": nb.Range(dt.date(2024, 1, 1), dt.date(2024, 1, 31)),
            "price": [nb.Range(Decimal("0.00"), Decimal("2.00")), nb.NotNull()],
        },
        unique=["order_id"],
        fresh="26h",
        rows=200,
        rules=["net >= 0", "net = price * 100"],
        synonyms=["sales"],
        deprecated_by=None,
        reconcile=(),
    )
    assert done.snapshot == orders.snapshot
    assert bool(done.checks)
    for table in (orders, lake.table("shop.orders")):
        claims = {(c.column, c.kind, str(c.value)) for c in table.claims}
        assert claims == {
            (None, "description", "Orders as placed."),
            (None, "unique", "['order_id']"),
            (None, "fresh", "26h"),
            (None, "rows", "200"),
            (None, "rule", "net >= 0"),
            (None, "rule", "net = price * 100"),
            (None, "synonyms", "['sales']"),
            ("status", "values", "{'P': 'placed', 'X': 'cancelled'}"),
            (
                *("customer_id", "references"),
                "{'table': 'shop.customers', 'column': None, 'orphans': 0.0}",
            ),
            ("net", "unit", "{'unit': 'euro', 'range': [0, 200]}"),
            ("net", "description", "net of tax"),
            ("day", "range", "['2024-01-01', '2024-01-31']"),
            ("price", "range", "['0.00', '2.00']"),
            ("price", "not_null", "True"),
        }
        assert all(c.at == orders.snapshot and c.by for c in table.claims)
        assert table.comment == "Orders as placed."
        assert table.schema.field("net").metadata == {b"doc": b"net of tax"}
        assert not table.check().contradicted
        assert not [c for c in table.check(deep=True) if c.status == "unchecked"]


def test_a_kind_given_again_replaces_and_none_removes(orders: nb.Table) -> None:
    orders.describe("One.", columns={"status": ["code", nb.NotNull()], "net": "x"}, rows=200)
    orders.describe(rows=250, columns={"status": nb.Values(["P", "X"])})
    assert [c.kind for c in orders.claims if c.column == "status"] == [
        *("description", "not_null", "values")
    ]
    assert [c.value for c in orders.claims if c.kind == "rows"] == [250]
    orders.describe(None, rows=None, columns={"status": None, "net": [None, nb.NotNull()]})
    assert [(c.column, c.kind) for c in orders.claims] == [("net", "not_null")]
    assert orders.comment is None
    assert not orders.schema.field("status").metadata
    orders.describe(columns={"net": None})
    assert not [name for name in orders.properties if name.startswith("nimblepy.claims")]


def test_documentation_of_others_is_a_claim(lake: nb.Catalog, orders: nb.Table) -> None:
    orders.describe("Ours.", columns={"net": "ours"})
    with lake.table("shop.orders").alter() as a:
        a.set_comment("Theirs.").set_doc("status", "theirs")
    orders.refresh()
    stamps = {(c.column, c.value): c.at for c in orders.claims}
    assert stamps == {
        (None, "Theirs."): None,
        ("status", "theirs"): None,
        ("net", "ours"): orders.snapshot,
    }


def test_claims_follow_renamed_columns_and_leave_with_dropped_ones(orders: nb.Table) -> None:
    orders.describe(columns={"status": nb.Values(["P", "X"]), "note": nb.NotNull(False)})
    with orders.alter() as a:
        a.rename_column("status", "state").drop_column("note")
    assert [(c.column, c.kind) for c in orders.claims] == [("state", "values")]
    assert status(orders, "values", "state") == "verified"
    with orders.alter() as a:
        a.drop_column("state").add_column("state", pa.string())
    assert orders.claims == ()


def test_unknown_kinds_are_kept(orders: nb.Table) -> None:
    with orders.alter() as a:
        entry = {"kind": "seasonal", "value": {"peak": "May"}, "at": "7", "weight": 3}
        a.store_claims({"nimblepy.claims.2": json.dumps({"claims": [entry]})})
    orders.describe(columns={"status": nb.NotNull()})
    (claim,) = [c for c in orders.claims if c.kind == "seasonal"]
    assert (claim.column, claim.value, claim.at) == ("status", {"peak": "May"}, 7)
    assert status(orders, "seasonal", "status") == "unverifiable"
    assert '"weight":3' in orders.properties["nimblepy.claims.2"]


def test_damaged_properties_do_not_break_checks(orders: nb.Table) -> None:
    orders.describe("Text.")
    for text in ("", "{", "[]", '{"claims": 3}', '{"claims": [{"kind": "values", "value": 3}]}'):
        with orders.alter() as a:
            a.store_claims({"nimblepy.claims.2": text})
        assert not orders.check().contradicted
        assert orders.claims[0].value == "Text."


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"fresh": "soon"}, "expected a duration"),
        ({"rows": -1}, "expected a number of rows"),
        ({"rules": ["net >"]}, "net >"),
        ({"rules": ["gone = 1"]}, "gone"),
        ({"unique": ["gone"]}, "gone"),
        ({"unique": []}, "at least one column"),
        ({"columns": {"gone": "x"}}, "gone"),
        ({"columns": {"net": 7}}, "expected text or a claim"),
        ({"columns": {"net": nb.Range("a", "b")}}, "net"),
        ({"columns": {"net": nb.Range(2, 1)}}, "greater than"),
        ({"columns": {"status": nb.Values([])}}, "at least one"),
        ({"columns": {"status": nb.References("customers")}}, "name of a table"),
        ({"columns": {"status": nb.Values({"P": "x" * 5000})}}, "at most 4,096 are allowed"),
        ({"columns": {"status": "x" * 5000}}, "at most 4,096 are allowed"),
        ({"description": " "}, "is empty"),
    ],
)
def test_claims_that_do_not_fit_are_refused(orders: nb.Table, given: Any, message: str) -> None:
    before = orders.metadata_location
    with pytest.raises(nb.InvalidArgumentError, match=message):
        orders.describe(**given)
    assert orders.refresh().metadata_location == before


def test_all_claims_of_a_table_have_a_limit(lake: nb.Catalog) -> None:
    names = [f"c{i}" for i in range(20)]
    table = lake.create_table("a.b", pa.schema({name: pa.int64() for name in names}))
    table.describe(columns=dict.fromkeys(names[:15], "x" * 4000))
    with pytest.raises(nb.InvalidArgumentError, match="at most 65,536 are allowed"):
        table.describe(columns=dict.fromkeys(names[15:], "x" * 4000))


# ---------------------------------------------------------------------- at the same time


def test_describers_of_one_column_conflict(
    lake: nb.Catalog, orders: nb.Table, between: Any
) -> None:
    other = lake.table("shop.orders")
    between(lambda: other.describe(columns={"status": nb.Values(["P", "X", "Y"])}))
    with pytest.raises(nb.ConflictError) as caught:
        orders.describe(columns={"status": nb.NotNull()})
    assert caught.value.kind == "properties"


def test_describers_of_two_columns_and_a_writer(
    lake: nb.Catalog, orders: nb.Table, between: Any
) -> None:
    other = lake.table("shop.orders")

    def meanwhile() -> None:
        other.describe(columns={"net": "net of tax"})
        other.append(pa.table({"order_id": [1000], "status": ["P"]}))

    between(meanwhile)
    orders.describe("All.", columns={"status": [nb.Values(["P", "X"]), "code"]})
    said = {(c.column, c.kind) for c in lake.table("shop.orders").claims}
    assert said == {
        (None, "description"),
        ("net", "description"),
        ("status", "description"),
        ("status", "values"),
    }


# ---------------------------------------------------------------------- checks


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"columns": {"status": nb.Values({"P": "p"})}}, "not claimed: X"),
        ({"columns": {"status": nb.Values(["PLACED", "CANCELLED"])}}, "not claimed: P, X"),
        ({"columns": {"net": nb.Values([0])}}, "values that are not claimed"),
        ({"columns": {"order_id": nb.Values(["one"])}}, "one"),
        ({"columns": {"status": nb.Samples(["Q"])}}, "no row has Q"),
        ({"columns": {"net": nb.Range(0, 100)}}, r"0.0 .. 199.0"),
        ({"columns": {"net": nb.Unit("cent", range=(0, 20_000))}}, "0 .. 20000 cent expected"),
        ({"columns": {"note": nb.NotNull()}}, "100 nulls in 200 rows"),
        ({"columns": {"net": nb.References("shop.gone")}}, "no table shop.gone"),
        ({"columns": {"order_id": nb.References("shop.customers")}}, "160 of 200 keys"),
        ({"columns": {"status": nb.References("shop.customers")}}, "string here, int64"),
        ({"columns": {"order_id": nb.References("shop.customers", "gone")}}, "no column gone"),
        ({"unique": ["customer_id"]}, "at most 40 different keys in 200 rows"),
        ({"unique": ["status", "customer_id"]}, "at most 80"),
        ({"rows": 1000}, "200 rows"),
        ({"deprecated_by": "shop.gone"}, "no table shop.gone"),
        ({"rules": ["net < 100"]}, "rows break it"),
    ],
)
def test_contradicted_claims_are_refused_with_what_is_observed(
    orders: nb.Table, given: Any, expected: str
) -> None:
    with pytest.raises(nb.InvalidArgumentError, match="contradicted by the rows") as caught:
        orders.describe(**given)
    assert expected.replace(r"\.", ".") in str(caught.value)
    assert not orders.claims
    done = orders.describe(**given, allow_contradicted=True)
    assert not done.checks
    (check,) = orders.check().contradicted
    assert expected in str(check.observed)
    assert check.snapshot == orders.snapshot
    assert check.to_dict()["status"] == "contradicted"


def test_a_table_may_be_described_before_its_first_rows(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.schema({"k": pa.int64(), "l": pa.list_(pa.int64())}))
    table.describe(
        "Empty.",
        columns={"k": [nb.Values([1]), nb.Samples([1]), nb.Unit("m", (0, 9)), nb.NotNull()]},
        unique=["k"],
        rows=10,
        fresh="1h",
    )
    assert not table.check().contradicted
    assert len(table.check().unchecked) == 5
    table.append(pa.table({"k": [2], "l": [[1]]}))
    assert [check.claim.kind for check in table.check().contradicted] == ["rows"]
    with pytest.raises(nb.InvalidArgumentError, match="needs a column of single values"):
        table.describe(columns={"l": nb.Values([1])})
    table.describe(columns={"l": nb.NotNull()})
    assert status(table, "not_null", "l") == "unchecked"


def test_meanings_of_names_in_descriptions(orders: nb.Table, lake: nb.Catalog) -> None:
    orders.describe(
        "`net` in `shop.customers`, `customers.name`, `shop`, `status` `P`, `NULL`, `a + b`.",
        columns={"status": nb.Values(["P", "X"])},
    )
    assert status(orders, "description") == "unverifiable"
    with orders.alter() as a:
        a.rename_column("net", "net_eur")
    assert status(orders, "description") == "suspect"
    assert "now called `net_eur`" in observed(orders, "description")
    with orders.alter() as a:
        a.drop_column("net_eur")
    assert status(orders, "description") == "contradicted"


def test_values_after_deletions_are_confirmed(orders: nb.Table) -> None:
    orders.append(pa.table({"order_id": [900], "status": ["Z"]}))
    orders.analyze()
    orders.describe(columns={"status": nb.Values(["P", "X", "Y"])}, allow_contradicted=True)
    assert status(orders, "values", "status") == "contradicted"
    assert "Z" in observed(orders, "values", "status")
    orders.delete("status = 'Z'")  # the sketch still has it
    assert status(orders, "values", "status") == "suspect"
    assert observed(orders, "values", "status") == "no row has Y"


def test_statuses_survive_compaction(orders: nb.Table) -> None:
    orders.describe(columns={"status": nb.Values(["P", "X"]), "net": nb.Range(0, 199)}, rows=200)
    before = [(c.claim.kind, c.status) for c in orders.check()]
    orders.append(pa.table({"order_id": [900], "status": ["P"], "net": [1.0]}))
    orders.compact(where_needed=False)
    assert [(c.claim.kind, c.status) for c in orders.check()] == before


def test_what_was_not_analyzed_is_unchecked(orders: nb.Table, lake: nb.Catalog) -> None:
    orders.describe(columns={"status": nb.Values(["P", "X"])})
    for file in Path(orders.location.removeprefix("file://")).glob("metadata/*.stats"):
        file.unlink()
    sketches._stored.clear()
    orders.append(pa.table({"order_id": [900], "status": ["P"]}))
    sketches._kept.clear()
    (check,) = lake.table("shop.orders").check()
    assert check.status == "unchecked"
    assert check.reason is not None
    assert "analyze()" in check.reason
    assert status(orders, "values", "status", deep=True) == "verified"


def test_rollback_to_before_the_analysis(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.table({"k": [1], "v": ["P"]}), primary_key="k")
    first = table.snapshot
    assert first is not None
    table.append(pa.table({"k": [2], "v": ["P"]}))
    table.analyze()
    table.describe(columns={"v": nb.Values(["P"])})
    table.rollback(first)
    assert status(table, "values", "v") == "unchecked"


def test_keys_of_other_engines_are_not_unique_by_construction(
    orders: nb.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.describe(unique=["order_id", "status"])
    assert status(orders, "unique") == "verified"
    subject = subject_of(orders)
    monkeypatch.setattr(type(subject), "key_is_proved", False)
    checks = check_all(subject, CatalogLake(orders.catalog), subject.claims)
    assert [check.status for check in checks] == ["unchecked"]


def test_references_by_lookup(lake: nb.Catalog, orders: nb.Table) -> None:
    """The sketches of a small table and of a large one have few hashes in common."""
    large = lake.create_table("a.large", pa.table({"id": range(60_000)}), primary_key="id")
    large.analyze()
    orders.describe(columns={"customer_id": nb.References("a.large")})
    assert status(orders, "references", "customer_id") == "verified"
    orders.append(pa.table({"order_id": [900], "customer_id": [99_999]}))
    assert status(orders, "references", "customer_id") == "contradicted"
    assert "1 of 41 keys" in observed(orders, "references", "customer_id")


def test_orphans_name_the_table_that_has_the_keys(lake: nb.Catalog, orders: nb.Table) -> None:
    others = pa.table({"id": range(100, 140)})
    lake.create_table("shop.suppliers", others, primary_key="id").analyze()
    given: Any = {"customer_id": nb.References("shop.suppliers")}
    orders.describe(columns=given, allow_contradicted=True)
    assert "shop.customers.id has them all" in observed(orders, "references", "customer_id")


def test_references_to_itself_empty_tables_and_other_widths(lake: nb.Catalog) -> None:
    rows = pa.table({"id": [1, 2, 3], "boss": pa.array([None, 1, 1], pa.int32())})
    table = lake.create_table("a.staff", rows.slice(0, 0), primary_key="id")
    table.describe(columns={"boss": nb.References("a.staff")})
    assert status(table, "references", "boss") == "verified"
    table.append(rows)
    table.analyze()
    assert status(table, "references", "boss") == "verified"
    table.delete("id = 1")
    assert status(table, "references", "boss") == "contradicted"


def test_deleted_nulls_and_extremes(orders: nb.Table) -> None:
    columns: Any = {"note": nb.NotNull(), "net": nb.Range(0, 150)}
    orders.describe(columns=columns, allow_contradicted=True)
    assert len(orders.check().contradicted) == 2
    orders.delete("note IS NULL OR net > 150")
    assert [check.status for check in orders.check()] == ["verified", "verified"]


def test_freshness(orders: nb.Table) -> None:
    orders.describe(fresh=dt.timedelta(hours=1))
    assert status(orders, "fresh") == "verified"
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=3)
    subject, lake = subject_of(orders), CatalogLake(orders.catalog)
    (check,) = check_all(subject, lake, now=later)
    assert check.status == "overdue"
    assert check.observed == "rows were added 3 h ago, 3600s promised"
    assert bool(check_all(subject, lake, now=later))


def test_deprecation(lake: nb.Catalog, orders: nb.Table) -> None:
    newer = lake.create_table("shop.orders_v2", ORDERS, primary_key="order_id")
    orders.describe(deprecated_by="shop.orders_v2")
    assert status(orders, "deprecated") == "verified"
    with pytest.raises(nb.InvalidArgumentError, match="is a circle"):
        newer.describe(deprecated_by="shop.orders")
    orders.append(pa.table({"order_id": [900]}))
    assert status(orders, "deprecated") == "suspect"


def test_drift_makes_prose_suspect(orders: nb.Table) -> None:
    orders.describe("Orders.", columns={"note": "free text"})
    assert not orders.check().suspect
    orders.append(pa.table({"order_id": range(1000, 1020), "note": ["text"] * 20}))
    assert not [c for c in orders.check().suspect if c.claim.column == "note"]
    assert not [c for c in orders.check().suspect if "different" in str(c.observed)]
    with orders.alter() as a:
        a.add_column("extra", pa.int64())
    (check, *_) = orders.check().suspect
    assert "column extra is new" in str(check.observed)
    orders.confirm("description")
    assert not [c for c in orders.check().suspect if c.claim.column is None]
    with pytest.raises(nb.InvalidArgumentError, match="no claim 'rows' about the table"):
        orders.confirm("rows")


def test_reconcile(lake: nb.Catalog, orders: nb.Table) -> None:
    other = pa.table({"total": [float(sum(range(200)))]})
    lake.create_table("shop.totals", other)
    orders.describe(reconcile=[nb.Reconcile("sum(net)", "shop.totals", "sum(total)", within=0.01)])
    assert status(orders, "reconcile") == "unchecked"
    assert status(orders, "reconcile", deep=True) == "verified"
    orders.append(pa.table({"order_id": [900], "net": [1e6]}))
    assert status(orders, "reconcile", deep=True) == "contradicted"


def test_rules_with_nulls_and_dropped_columns(orders: nb.Table) -> None:
    orders.describe(rules=["net / price >= 0", "note = 'text'"])
    assert [c.status for c in orders.check(deep=True)] == ["verified", "verified"]
    with orders.alter() as a:
        a.rename_column("note", "remark")
    assert [c.status for c in orders.check()] == ["unchecked", "suspect"]
    with orders.alter() as a:
        a.drop_column("remark")
    assert [c.status for c in orders.check()] == ["unchecked", "suspect"]


def test_claims_of_today_against_an_earlier_snapshot(orders: nb.Table) -> None:
    orders.tag("before")
    orders.append(pa.table({"order_id": [900], "status": ["Z"]}))
    orders.describe(columns={"status": nb.Values(["P", "X", "Z"])})
    assert status(orders, "values", "status") == "verified"
    (check,) = orders.at(tag="before").check()
    assert (check.status, check.snapshot) == ("suspect", orders.tags["before"])


@pytest.mark.cost
def test_checks_open_no_data_file_and_read_added_rows_only(
    lake: nb.Catalog, orders: nb.Table
) -> None:
    orders.describe(
        columns={
            "status": nb.Values(["P", "X"]),
            "customer_id": [nb.References("shop.customers"), nb.NotNull()],
            "net": nb.Range(0, 1000),
        },
        unique=["order_id"],
        rules=["net >= 0"],
    )
    orders.append(pa.table({"order_id": [900], "status": ["P"], "customer_id": [1], "net": [1.0]}))
    assert {check.status for check in orders.check()} == {"verified"}
    subject = subject_of(lake.table("shop.orders"))
    sketches._kept.clear()
    assert len(check_all(subject, CatalogLake(lake), subject.claims)) == 6
    assert subject.sketches.rows_read == 1
    for name in ("orders", "customers"):
        place = lake.table(f"shop.{name}").location.removeprefix("file://")
        shutil.rmtree(Path(place) / "data")
    subject = subject_of(lake.table("shop.orders"))
    checks = check_all(subject, CatalogLake(lake), subject.claims)
    assert {check.status for check in checks} == {"verified"}
    assert subject.sketches.rows_read == 0


# ---------------------------------------------------------------------- lakes


def test_checks_and_descriptions_of_a_lake(lake: nb.Catalog, orders: nb.Table) -> None:
    orders.describe("Orders.", columns={"net": nb.Range(0, 1)}, allow_contradicted=True)
    checks = lake.check()
    assert list(checks) == ["shop.customers", "shop.orders"]
    assert bool(checks["shop.customers"])
    assert not checks["shop.orders"]
    overview = lake.describe().to_pylist()
    assert [row["table"] for row in overview] == list(checks)
    assert overview[1] | {} == overview[1]
    assert (overview[1]["description"], overview[1]["rows"]) == ("Orders.", 200)
    assert (overview[1]["claims"], overview[1]["contradicted"]) == (2, 1)


def test_find(lake: nb.Catalog, orders: nb.Table) -> None:
    old = lake.create_table("shop.orders_2019", ORDERS.schema)
    old.describe("Sales of old.", deprecated_by="shop.orders")
    orders.describe("Orders as placed.", synonyms=["sales"], columns={"net": nb.Unit("euro")})
    found = lake.find("sales in euros", limit=2)
    assert found.schema.names == ["table", "score", "why"]
    assert found["table"].to_pylist() == ["shop.orders", "shop.orders_2019"]
    assert "'sales' in synonym" in found["why"][0].as_py()
    assert "deprecated by shop.orders" in found["why"][1].as_py()
    assert lake.find("zebra").num_rows == 0
    assert lake.find("customers", limit=1)["table"].to_pylist() == ["shop.customers"]


def test_join_path(lake: nb.Catalog, orders: nb.Table) -> None:
    assert lake.join_path("shop.orders", "shop.customers") is None
    lines = pa.table({"line": range(400), "order": [i // 2 for i in range(400)]})
    table = lake.create_table("shop.lines", lines, primary_key="line")
    table.analyze()
    table.describe(columns={"order": nb.References("shop.orders")})
    orders.describe(columns={"customer_id": nb.References("shop.customers")})
    path = lake.join_path("shop.lines", "shop.customers")
    assert path is not None
    assert [str(step) for step in path.steps] == [
        "shop.lines.order = shop.orders.order_id",
        "shop.orders.customer_id = shop.customers.id",
    ]
    assert (path.orphans, path.fan_out) == (0.0, 1.0)
    back = lake.join_path("shop.customers", "shop.lines")
    assert back is not None
    assert back.fan_out == 10.0
    orders.append(pa.table({"order_id": [900], "customer_id": [77]}))
    path = lake.join_path("shop.orders", "shop.customers")
    assert path is not None
    assert path.orphans == pytest.approx(1 / 41)
    with pytest.raises(nb.InvalidArgumentError, match="no table"):
        lake.join_path("shop.orders", "shop.gone")


# ---------------------------------------------------------------------- other engines


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_other_engines_read_a_described_table(
    lake: nb.Catalog, data_format: Any, library_reads_nimble: None
) -> None:
    table = lake.create_table("a.b", ORDERS, data_format=data_format)
    table.describe("Orders.", columns={"status": ["code", nb.Values(["P", "X"])]})
    metadata = table.iceberg.metadata
    assert metadata.properties["comment"] == "Orders."
    assert table.iceberg.schema().find_field("status").doc == "code"
    if data_format == "parquet":
        assert table.iceberg.scan().to_arrow().num_rows == 200
        duckdb = pytest.importorskip("duckdb")
        files = f"{table.location.removeprefix('file://')}/data/*.parquet"
        assert duckdb.sql(f"SELECT count(*) FROM '{files}'").fetchall() == [(200,)]
        polars = pytest.importorskip("polars")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it recommends a package of its own
            assert polars.scan_iceberg(table.metadata_location).collect().height == 200


def test_a_commit_with_many_claims_keeps_them(lake: nb.Catalog) -> None:
    names = [f"c{i}" for i in range(15)]
    table = lake.create_table("a.b", pa.schema({name: pa.int64() for name in names}))
    table.describe(columns=dict.fromkeys(names, "x" * 4000))
    for _ in range(3):
        table.append(pa.table({"c0": [1]}))
    assert len(lake.table("a.b").claims) == 15


def test_two_describers_beside_ten_writers(lake: nb.Catalog, orders: nb.Table) -> None:
    errors: list[BaseException] = []

    def run(work: Any) -> None:
        try:
            work(lake.table("shop.orders"))
        except BaseException as error:
            errors.append(error)

    def describe_columns(table: nb.Table) -> None:
        for text in "abc":
            table.describe(columns={"net": text, "note": nb.NotNull(False)})

    def describe_table(table: nb.Table) -> None:
        for rows in (150, 200, 250):
            table.describe("Orders.", rows=rows)

    def write(first: int) -> Any:
        return lambda table: [
            table.append(pa.table({"order_id": [first + i], "status": ["P"]})) for i in range(3)
        ]

    works = [describe_columns, describe_table, *(write(1000 * i) for i in range(1, 11))]
    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    orders.refresh()
    assert orders.num_rows == 230
    assert {(c.column, c.kind, c.value) for c in orders.claims} == {
        (None, "description", "Orders."),
        (None, "rows", 250),
        ("net", "description", "c"),
        ("note", "not_null", False),
    }


def test_true_claims_of_other_forms_are_not_contradicted(lake: nb.Catalog) -> None:
    """Integers on decimals and codes for null were contradicted."""
    rows = pa.table(
        {
            "price": pa.array([Decimal("1.00"), Decimal("2.00")], pa.decimal128(10, 2)),
            "code": pa.array([1, None], pa.int64()),
            "small": pa.array([1, 2], pa.int32()),
        }
    )
    table = lake.create_table("a.forms", rows)
    table.describe(
        columns={
            "price": nb.Values({1: "one", 2: "two"}),
            "code": nb.Values({1: "one", None: "unknown"}),
            "small": nb.Range(0, 2**31 - 1),
        }
    )
    statuses = {check.claim.column: check.status for check in table.check()}
    assert "contradicted" not in statuses.values()
    table.analyze()
    statuses = {check.claim.column: check.status for check in table.check()}
    assert statuses["price"] == statuses["code"] == "verified"
    with pytest.raises(nb.InvalidArgumentError):
        table.describe(columns={"small": nb.Range(0, 2**64)})


def test_columns_of_later_snapshots_do_not_contradict_earlier_ones(lake: nb.Catalog) -> None:
    table = lake.create_table("a.later", pa.table({"k": [1, 2]}))
    first = table.snapshot
    with table.alter() as change:
        change.add_column("added", pa.int64())
    table.append(pa.table({"k": [3], "added": [3]}))
    table.describe("see `added`", rules=["added > 0 OR added IS NULL"], unique=["added"])
    earlier = {check.claim.kind: check.status for check in table.at(snapshot=first).check()}
    assert len(earlier) == 3
    assert "contradicted" not in earlier.values()


def test_an_unreadable_promise_is_an_error() -> None:
    assert age_seconds("26h") == 26 * 3600
    with pytest.raises(nb.InvalidArgumentError, match="1 day"):
        age_seconds("1 day")
