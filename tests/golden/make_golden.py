"""Writes golden files: ``python tests/golden/make_golden.py v1`` fills tests/golden/v1.

Refuses to change an existing file: files of a released format never change. ``--again`` is for
a format that has not been released.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent), str(FOLDER.parent / "support")]

import pyarrow as pa  # noqa: E402
from golden_rows import table_json  # noqa: E402
from golden_tables import golden_files  # noqa: E402
from oracle import Order, file_order, plain_values  # noqa: E402

import nimblepy as nb  # noqa: E402


def write(name: str, directory: Path) -> Path:
    """Writes one golden file as today's writer does."""
    table, keywords = golden_files()[name]
    path = directory / f"{name}.nimble"
    nb.write(table, path, **keywords)
    return path


def rows_wanted(name: str) -> pa.Table:
    """The rows of a golden file in file order, by the tests' model of key order."""
    table, keywords = golden_files()[name]
    if "cluster_by" not in keywords:
        return table
    given = keywords["cluster_by"]
    keys = [
        k if isinstance(k, nb.SortKey) else nb.SortKey(k)
        for k in ([given] if isinstance(given, str) else given)
    ]
    columns = [plain_values(table[key.column]) for key in keys]
    orders = [Order(key.descending, key.nulls_first) for key in keys]
    return table.take(file_order(list(zip(*columns, strict=True)), orders))


def expectation(name: str) -> str:
    wanted: dict[str, Any] = table_json(rows_wanted(name))
    head = {key: value for key, value in wanted.items() if key != "columns"}
    lines = [json.dumps(column, ensure_ascii=True) for column in wanted["columns"]]
    return (
        json.dumps(head, ensure_ascii=True)[:-1] + ', "columns": [\n' + ",\n".join(lines) + "\n]}\n"
    )


def main(arguments: list[str]) -> int:
    versions = [a for a in arguments if not a.startswith("-")]
    if len(versions) != 1:
        print(__doc__)
        return 2
    directory = FOLDER / versions[0]
    directory.mkdir(exist_ok=True)
    for name in golden_files():
        if (directory / f"{name}.nimble").exists() and "--again" not in arguments:
            print(f"{directory.name}/{name}.nimble: exists, not changed")
            continue
        path = write(name, directory)
        path.with_suffix(".json").write_text(expectation(name), encoding="ascii")
        print(f"{directory.name}/{path.name}: {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
