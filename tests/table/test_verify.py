"""``Table.verify`` and ``nimble verify``: damaged and missing data files and delete files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import nimblepy as nb
from nimblepy.cli.main import app


def _flip(path: str) -> None:
    content = bytearray(Path(path).read_bytes())
    content[len(content) // 3] ^= 0xFF
    Path(path).write_bytes(content)


def _replace(path: str) -> None:
    Path(path).write_bytes(b"x" * 100)


DAMAGES = {
    "missing": (os.remove, FileNotFoundError),
    "flipped": (_flip, nb.CorruptFileError),
    "replaced": (_replace, nb.CorruptFileError),
}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
@pytest.mark.parametrize("kind", ["data", "deletes"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_verify_finds_a_bad_file(
    lake: nb.Catalog,
    tmp_path: Path,
    damage: str,
    kind: str,
    data_format: Any,
    version: int,
) -> None:
    if (damage, kind, data_format) == ("flipped", "data", "parquet"):
        pytest.skip("Parquet files have no checksums by default")
    if (damage, kind, data_format, version) == ("flipped", "deletes", "parquet", 2):
        pytest.skip("Parquet files have no checksums by default")
    table = lake.create_table(
        "a.t",
        pa.table({"k": range(1000), "v": [str(i) for i in range(1000)]}),
        primary_key="k",
        data_format=data_format,
        format_version=version,
    )
    table.upsert([{"k": k, "v": "new"} for k in range(0, 1000, 2)])
    # The deletes are cached, and the files are open: neither may hide the damage.
    table.verify()
    assert table.num_rows == table.to_table().num_rows == 1000
    census = table.census().to_pylist()
    path = next(row["path"] for row in census if row["kind"] == kind)
    change, error = DAMAGES[damage]
    _change(change, path)
    with pytest.raises(error, match=os.path.basename(path)):
        table.verify()
    with pytest.raises(error):
        lake.table("a.t").verify()
    result = CliRunner().invoke(app, ["verify", f"{_place(lake)}#a.t"])
    assert result.exit_code == 1, result.output
    assert os.path.basename(path) in result.stderr.replace("\n", "")


def _place(lake: nb.Catalog) -> str:
    place = lake._target
    assert place is not None
    return place


def _change(change: Callable[[str], None], path: str) -> None:
    change(path.removeprefix("file://"))


def test_verify_lists_each_bad_file(lake: nb.Catalog) -> None:
    table = lake.create_table("a.t", pa.table({"k": range(100)}), primary_key="k")
    table.delete(keys=[1])
    table.append(pa.table({"k": range(100, 200)}))
    table.delete(keys=[150])
    census = table.census().to_pylist()
    paths = [row["path"] for row in census if row["kind"] in ("data", "deletes")]
    assert len(paths) >= 3
    for path in paths:
        _change(os.remove, path)
    result = CliRunner().invoke(app, ["verify", f"{_place(lake)}#a.t"])
    assert result.exit_code == 1
    assert all(os.path.basename(path) in result.stderr.replace("\n", "") for path in paths)
