"""``nimble describe``: claims and their checks, for people, programs and CI."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

import nimblepy as nb
from nimblepy.cli.main import app


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["describe", *map(str, arguments)])


@pytest.fixture
def place(lake: nb.Catalog, tmp_path: Path) -> Path:
    table = lake.create_table("shop.items", pa.table({"id": [1, 2], "g": ["a", "b"]}))
    table.describe(
        "All items.",
        columns={"g": [nb.Values({"a": "first", "b": "second"}), "group"], "id": nb.NotNull()},
        rules=["id + 1 > 0"],
    )
    lake.create_table("shop.other", pa.schema({"x": pa.struct({"y": pa.int32()})})).describe(
        columns={"x.y": "inside"}
    )
    return tmp_path / "lake"


def test_descriptions(place: Path) -> None:
    shown = run(f"{place}#shop.items")
    assert shown.exit_code == 0
    assert shown.stdout.splitlines() == [
        "shop.items: 2 rows",
        "  All items.",
        "  rule id + 1 > 0",
        "  id (int64)",
        "    not_null True",
        "  g (string)",
        "    group",
        "    values {'a': 'first', 'b': 'second'}",
    ]
    assert run(place).stdout.splitlines()[-2:] == ["  x.y", "    inside"]
    items, _ = json.loads(run(place, "--json").stdout)
    assert items["description"] == "All items."
    assert {claim["kind"] for claim in items["claims"]} >= {"values", "not_null", "rule"}
    assert isinstance(items["snapshot"], str)


def test_exit_statuses(place: Path, lake: nb.Catalog) -> None:
    assert run(place, "--check").exit_code == 0
    assert run(place, "--check", "--fail-on", "unchecked").exit_code == 1
    assert run(place, "--deep", "--fail-on", "unchecked").exit_code == 0
    table = lake.table("shop.items")
    table.describe(fresh="0s")
    assert run(place, "--check", "--fail-on", "suspect").exit_code == 0
    assert run(place, "--check", "--fail-on", "overdue").exit_code == 1
    table.append(pa.table({"id": [3], "g": ["c"]}))
    table.analyze()
    found = run(place, "--check")
    assert found.exit_code == 1
    assert "contradicted: g: values" in found.stdout
    assert "values that are not claimed: c" in found.stdout
    checks = json.loads(run(place, "--check", "--json").stdout)["shop.items"]["checks"]
    (values,) = [check for check in checks if check["kind"] == "values"]
    assert values["value"]["unknown"] == ["c"]
    assert values["status"] == "contradicted"
    assert isinstance(values["snapshot"], str)


def test_what_cannot_be_checked(place: Path) -> None:
    for arguments in ([f"{place}#shop.gone"], ["no/such/lake"], [place, "--fail-on", "odd"]):
        done = run(*arguments)
        assert done.exit_code == 2, done.output
        assert done.stderr.startswith("nimble: error: ")
