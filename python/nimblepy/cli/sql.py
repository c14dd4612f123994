"""The command ``sql``: a SELECT that is a scan. For other SQL it shows how to use DuckDB."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace

from nimblepy.cli.query import Query, scan_rows
from nimblepy.cli.sources import open_rows
from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.select import read_select


def run_sql(path: str, text: str, params: Mapping[str, str] | None, query: Query) -> None:
    """Prints the result of a SELECT of columns with a condition."""
    with open_rows(path) as rows:
        try:
            select = read_select(text, rows.schema)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"sql: {error}; {_duckdb(path, text)}") from None
        query = replace(query, paths=select.columns)
        if not select.count:
            query = replace(query, limit=select.limit, offset=select.offset)
        elif (select.limit == 0 or select.offset) and not query.explain:
            # A count is one row, which limit and offset may leave out. The condition is checked
            # anyway.
            rows.scan([], filter=select.where, params=params, limit=0).count()
            return
        scan_rows(rows, select.where, params, query, count_only=select.count)


def _duckdb(path: str, text: str) -> str:
    source = f"t={path!r}"
    if "#" in path:
        catalog, _, name = path.rpartition("#")
        source = f"t=nb.connect({catalog!r}).table({name!r})"
    code = (
        f"import duckdb, nimblepy as nb; nb.duckdb(duckdb.connect(), {source}).sql({text!r}).show()"
    )
    return f"DuckDB answers the rest, over FROM t: python -c {shlex.quote(code)}"
