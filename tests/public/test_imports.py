"""What is imported when: a lookup in a fresh process waits for nothing that it does not need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import nimblepy as nb

pytestmark = pytest.mark.no_sanitizer  # other processes

SLOW = ("pandas", "polars", "duckdb", "pyarrow.dataset", "pyarrow.parquet", "fsspec")


def _imported(code: str) -> set[str]:
    """Those of SLOW that a new process has imported after `code`."""
    ask = f"{code}\nimport sys\nprint(*[m for m in {SLOW} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_all_public_names_import_without_pandas() -> None:
    assert _imported("import nimblepy as nb\nfor n in nb.__all__: getattr(nb, n)") == set()


def test_open_and_first_lookups_import_nothing_slow(tmp_path: Path) -> None:
    """pyarrow imports pandas in array(), scalar() and to_numpy(), were it only to see that the
    value is none of its.
    """
    path = tmp_path / "t.nimble"
    keys = {"k": range(100), "s": [f"user {i}" for i in range(100)]}
    more = {"x": [None if i % 3 else i / 7 for i in range(100)], "l": [[i] for i in range(100)]}
    nb.write(pa.table(keys | more), path, cluster_by="k")
    reads = [
        "f.get(3)['s'] == 'user 3'",
        "f.get(101) is None",
        "f.range(3, 50).num_rows == 47",
        "f.range(3, 50, limit=5, reverse=True, columns=['x', 'l']).num_rows == 5",
        "f.prefix(3, on='k').num_rows == 1",
    ]
    for read in reads:
        code = f"import nimblepy as nb\nf = nb.open({str(path)!r})\nassert {read}"
        assert _imported(code) == set(), read


def test_connect_loads_no_table_library(tmp_path: Path) -> None:
    code = f"import nimblepy as nb\nc = nb.connect({str(tmp_path / 'lake')!r})\nprint(c)"
    ask = f"{code}\nimport sys\nassert not {{'pyiceberg', 'pyarrow.compute'}} & set(sys.modules)"
    assert _imported(ask) >= {"<nimblepy.Catalog"}
    assert not (tmp_path / "lake").exists()  # the first write makes it
