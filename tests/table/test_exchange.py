"""Claims to and from the documents of other catalogs."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

import nimblepy as nb
from nimblepy.cli.main import app
from nimblepy.table.claims.ossie import from_ossie


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["describe", *map(str, arguments)])


@pytest.fixture
def place(lake: nb.Catalog, tmp_path: Path) -> Path:
    lake.create_table("shop.customers", pa.table({"id": [1, 2]}), primary_key="id").analyze()
    rows = pa.table(
        {
            "id": [1, 2, 3],
            "who": [1, 2, 2],
            "code": pa.array([0, 1, 1], pa.int32()),
            "day": [dt.date(2024, 1, 1)] * 3,
            "n": [{"a": 1}] * 3,
        }
    )
    table = lake.create_table("shop.orders", rows, primary_key="id")
    table.analyze()
    table.describe(
        "Orders.\nOne row each.",
        columns={
            "who": nb.References("shop.customers"),
            "code": ["what happened", nb.Values({0: "placed", 1: "paid"}), nb.NotNull()],
            "day": [nb.Range(dt.date(2024, 1, 1), dt.date(2024, 12, 31)), nb.Samples([])],
            "n.a": "inside",
        },
        unique=["id", "code"],
        fresh="26h",
        rows=3,
        rules=["id > 0", "id + code > 0"],
        synonyms=["sales"],
    )
    return tmp_path / "lake"


def exported(place: Path, form: str) -> dict[str, str]:
    folder = place.parent / form
    done = run(place, "--export", form, folder)
    assert done.exit_code == 0, done.output
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def plain(table: nb.Table) -> list[tuple[Any, ...]]:
    return [(c.kind, c.column, c.value, c.by) for c in table.claims]


def test_ossie_there_and_back(place: Path, lake: nb.Catalog) -> None:
    (text,) = exported(place, "ossie").values()
    orders = lake.table("shop.orders")
    assert from_ossie(json.loads(text))["shop.orders"] == list(orders.claims)
    before = plain(orders)
    columns: Any = dict.fromkeys(["who", "code", "day", "n.a"])
    orders.describe(None, columns=columns, unique=None, fresh=None, rows=None, rules=None)
    orders.describe(synonyms=None)
    assert orders.claims == ()
    done = run(place, "--import", place.parent / "ossie" / "ossie.json")
    assert done.exit_code == 0, done.output
    assert done.stdout == f"shop.orders: {len(before)} claims stored\n"
    assert plain(lake.table("shop.orders")) == before


def test_ossie_of_others(place: Path, lake: nb.Catalog) -> None:
    (text,) = exported(place, "ossie").values()
    document = json.loads(text)
    (model,) = document["semantic_model"]
    assert model["relationships"] == [
        {
            "name": "shop_orders_who",
            "from": "shop_orders",
            "to": "shop_customers",
            "from_columns": ["who"],
            "to_columns": ["id"],
        }
    ]
    for dataset in model["datasets"]:
        dataset.pop("custom_extensions", None)
        for item in dataset["fields"]:
            item.pop("custom_extensions", None)
    model["datasets"][1]["ai_context"] = "sales, purchases"  # the other valid form
    claims = {(c.column, c.kind): c.value for c in from_ossie(document)["shop.orders"]}
    assert claims == {
        (None, "description"): "Orders.\nOne row each.",
        (None, "synonyms"): ["sales", "purchases"],
        (None, "unique"): ["id", "code"],
        ("code", "description"): "what happened",
        ("n.a", "description"): "inside",
        ("who", "references"): {"table": "shop.customers", "column": "id", "orphans": 0.0},
    }


def test_okf_odcs_and_labels(place: Path, lake: nb.Catalog) -> None:
    page = exported(place, "okf")["shop.orders.md"]
    _, head, body = page.split("---\n", 2)
    front = json.loads(head)
    assert (front["type"], front["title"], front["status"]) == ("Table", "shop.orders", "active")
    assert "code: values" in front["verified"]
    assert "* `code` int32: what happened" in body
    contract = json.loads(exported(place, "odcs")["shop.orders.odcs.json"])
    properties = {item["name"]: item for item in contract["schema"][0]["properties"]}
    assert properties["code"]["quality"][0]["arguments"] == {"validValues": [0, 1]}
    assert properties["code"]["required"]
    assert properties["who"]["relationships"] == [{"type": "foreignKey", "to": "shop.customers.id"}]
    assert contract["slaProperties"][0]["value"] == 26
    labels = json.loads(exported(place, "labels")["shop.orders.labels.json"])["labels"]
    assert labels["object-labels"]["nimblepy.unique.status"] == "verified"
    codes = next(f for f in labels["fields"] if f["field-id"] == 3)["labels"]
    assert codes["nimblepy.values"] == '[[0, "placed"], [1, "paid"]]'
    assert all(isinstance(text, str) for text in codes.values())


def test_nothing_is_verified_if_a_claim_is_contradicted(place: Path, lake: nb.Catalog) -> None:
    lake.table("shop.orders").append(pa.table({"id": [9], "code": pa.array([7], pa.int32())}))
    front = json.loads(exported(place, "okf")["shop.orders.md"].split("---\n")[1])
    assert (front["status"], front["verified"]) == ("draft", [])


def test_imports_that_do_not_fit(place: Path, tmp_path: Path) -> None:
    file = tmp_path / "in.json"
    for text in ("{", "{}", '{"semantic_model": []}', '{"semantic_model": [{"datasets": [3]}]}'):
        file.write_text(text)
        done = run(place, "--import", file)
        assert done.exit_code == 2, text
        assert done.stderr.startswith("nimble: error: "), text
    item = {"name": "o", "source": "shop.orders", "fields": [], "unique_keys": [["who"]]}
    file.write_text(json.dumps({"semantic_model": [{"datasets": [item]}]}))
    assert "at most 2 different keys" in run(place, "--import", file).stderr
    assert run(place, "--import", file, "--allow-contradicted").exit_code == 0
    assert run(place, "--export", "pdf", tmp_path).exit_code == 2
