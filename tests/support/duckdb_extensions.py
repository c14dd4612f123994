"""DuckDB with the extensions that PyPI has, which must be of DuckDB's release."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import duckdb
import pytest


def with_extensions(*names: str) -> duckdb.DuckDBPyConnection:
    """Returns a connection; skips the test if an extension is not installed."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in names:
        spec = importlib.util.find_spec(f"duckdb_extension_{name}")
        file = f"extensions/v{duckdb.__version__}/{name}.duckdb_extension"
        path = None if spec is None or spec.origin is None else Path(spec.origin).parent / file
        if path is None or not path.exists():
            pytest.skip(f"no {name} extension for DuckDB {duckdb.__version__}")
        connection.load_extension(str(path))
    return connection
