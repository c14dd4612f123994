"""Runs queries in DuckDB and DataFusion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa


def datafusion_session(folder: Path) -> Any:
    """``None`` if DataFusion is not installed."""
    try:
        from datafusion import SessionConfig, SessionContext
    except ImportError:
        return None
    config = SessionConfig().set("datafusion.execution.parquet.pushdown_filters", "true")
    session = SessionContext(config)
    session.register_parquet("lake", str(folder))
    return session


def rows_of(duck: duckdb.DuckDBPyConnection, query: str) -> list[Any]:
    return duck.sql(query).fetchall()


def table_of(duck: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    return duck.sql(query).to_arrow_table()


def collected(session: Any, query: str) -> Any:
    return session.sql(query).collect()
