"""The process that reads rows for agents: ``python -m nimblepy.mcp.worker CATALOG``.

It reads jobs from standard input and writes results to standard output, one line of JSON each. A
job names a tool. The job of a query has SQL that ``nimblepy.mcp.sql`` has checked; it runs in a new
DuckDB session, in memory. The process cannot write files, and its memory is limited.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any, TextIO

import duckdb

from nimblepy.duck.aggregate import check_names
from nimblepy.errors import ConflictError, InvalidArgumentError, NimbleError
from nimblepy.interop.arrow_dataset import arrow_dataset
from nimblepy.mcp.budget import Cuts
from nimblepy.mcp.reading import READERS
from nimblepy.table.catalog import connect
from nimblepy.table.table import Table

# Memory limit of DuckDB, and memory that the process may use in addition to its memory at start.
_DUCKDB_BYTES = 512 << 20
_PROCESS_BYTES = 1536 << 20
_SETTINGS = {
    "threads": 1,  # each page runs the query again, and its rows must come in the same order
    "memory_limit": f"{_DUCKDB_BYTES >> 20}MiB",
    "temp_directory": "",
    "enable_external_access": False,
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "python_enable_replacements": False,
    "TimeZone": "UTC",
}


def main() -> None:
    """Answers jobs until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # keep output of libraries out of the answers
    tables = _Tables(sys.argv[1])
    duckdb.connect().execute("SELECT 1").fetchall()
    _limit_process()
    _send(answers, {"ready": True})
    for line in sys.stdin:
        _send(answers, _answered(tables, json.loads(line)))


def _send(answers: TextIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _limit_process() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            lines = [line for line in status if line.startswith("VmData:")]
        used = int(lines[0].split()[1]) << 10
    except (OSError, IndexError):
        return  # not Linux
    most = used + _PROCESS_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


class _Tables:
    """The tables of a catalog. Opens each table once."""

    def __init__(self, catalog: str) -> None:
        self._catalog = connect(catalog, create=False)
        self._open: dict[str, Table] = {}

    def table(self, name: str, snapshot: str | None) -> Table:
        """Returns a table at a snapshot. ``None`` means the newest snapshot."""
        newest = self._open.get(name)
        try:
            if newest is not None:
                newest.refresh()
        except (ConflictError, InvalidArgumentError):  # another table has its name, or none
            newest = None
        if newest is None:
            newest = self._open[name] = self._catalog.table(name)
        return newest if snapshot is None else newest.at(snapshot=int(snapshot))


def _answered(tables: _Tables, job: dict[str, Any]) -> dict[str, Any]:
    try:
        if job["tool"] == "query":
            return _run(tables, job)
        return READERS[job["tool"]](tables.table(job["table"], job["snapshot"]), job)
    except duckdb.InterruptException:
        return {"error": f"stopped after {job['milliseconds']:,} ms", "kind": "time"}
    except (MemoryError, duckdb.OutOfMemoryException):
        return {"error": "it needs too much memory", "kind": "memory"}
    except (NimbleError, duckdb.Error) as error:
        return {"error": str(error).split("\n\nLINE")[0].strip(), "kind": "query"}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}", "kind": "other"}


def _run(tables: _Tables, job: dict[str, Any]) -> dict[str, Any]:
    connection = duckdb.connect(":memory:")
    snapshots = {}
    timer = threading.Timer(job["milliseconds"] / 1000, connection.interrupt)
    try:
        for name, value in _SETTINGS.items():
            connection.execute(f"SET GLOBAL {name} = '{value}'")
        for number, (name, snapshot) in enumerate(job["tables"].items()):
            table = tables.table(name, snapshot)
            snapshots[name] = None if table.snapshot is None else str(table.snapshot)
            check_names(table.schema.names)
            connection.register(f"_table{number}", arrow_dataset(table))
            namespace, _, short = (part.replace('"', '""') for part in name.rpartition("."))
            connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{namespace}"')
            view = f'CREATE VIEW "{namespace}"."{short}" AS SELECT * FROM _table{number}'
            connection.execute(view)
        connection.execute("SET lock_configuration = true")
        timer.start()
        cursor = connection.execute(job["sql"])
        names = [column[0] for column in cursor.description or ()]
        types = [str(column[1]) for column in cursor.description or ()]
        skipped = 0
        while skipped < job["offset"]:
            rows = cursor.fetchmany(min(2_000, job["offset"] - skipped))
            if not rows:
                break
            skipped += len(rows)
        rows = cursor.fetchmany(job["rows"] + 1)
        cuts = Cuts()
        more = len(rows) > job["rows"]
        plain = [cuts.plain(row) for row in rows[: job["rows"]]]
    finally:
        timer.cancel()
        connection.close()
    return {
        "columns": names,
        "types": types,
        "rows": plain,
        "more": more,
        "cut_texts": cuts.texts,
        "cut_lists": cuts.lists,
        "snapshots": snapshots,
    }


if __name__ == "__main__":
    main()
