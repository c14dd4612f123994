"""The tables of a catalog that a server shows, with their claims and checks."""

from __future__ import annotations

import datetime as dt
import os
import re
import threading
from collections.abc import Collection, Iterable, Sequence

from nimblepy.errors import ConflictError, InvalidArgumentError
from nimblepy.table.catalog import Catalog, connect
from nimblepy.table.claims.checks import Check
from nimblepy.table.claims.kinds import age_seconds
from nimblepy.table.table import Table

# How long a client may cache a resource, in ms: if fresh rows are not promised, and at most.
_TTL_MS, _MOST_TTL_MS = 60_000, 7 * 86_400_000


class SharedLake:
    """The part of a catalog that agents may see. Thread-safe.

    Args:
        target: the catalog, as for :func:`nimblepy.connect`.
        namespaces: the namespaces to show, with the namespaces below them. Empty means all.
    """

    def __init__(self, target: str, namespaces: Sequence[str] = ()) -> None:
        self.target = target
        self.catalog: Catalog = connect(target, create=False)
        self._namespaces = tuple(namespaces)
        self._open: dict[str, Table] = {}
        self._lock = threading.Lock()
        unknown = [
            name for name in namespaces if not any(map(self.allows, self.catalog.tables(name)))
        ]
        if unknown:
            shown = ", ".join(self.catalog.namespaces()) or "none"
            raise InvalidArgumentError(
                f"--allow {unknown[0]}: the namespace has no tables; there are {shown}"
            )

    def places(self) -> set[str]:
        """Returns the locations of the catalog and of the tables that were opened."""
        places = {self.target}
        if ":" not in self.target:
            path = os.path.abspath(self.target)
            places = {path, os.path.realpath(path)}
        with self._lock:
            opened = list(self._open.values())
        return places | {table.location.removeprefix("file://") for table in opened}

    def allows(self, name: str) -> bool:
        """Returns whether a table is shown."""
        return not self._namespaces or any(name.startswith(f"{n}.") for n in self._namespaces)

    def tables(self) -> list[str]:
        """Returns the names of the tables that are shown."""
        return [name for name in self.catalog.tables() if self.allows(name)]

    def hidden(self) -> set[str]:
        """Returns the names of the tables that are not shown."""
        if not self._namespaces:
            return set()
        return {name for name in self.catalog.tables() if not self.allows(name)}

    def table(self, name: str) -> Table:
        """Returns a table at its newest snapshot.

        Raises:
            InvalidArgumentError: the table does not exist, or it is not shown.
        """
        with self._lock:
            table = self._open.get(name)
        try:
            if table is not None:
                try:
                    table.refresh()
                    return table
                except ConflictError:  # another table has its name now
                    pass
            if self.allows(name):
                table = self.catalog.table(name)
                with self._lock:
                    self._open[name] = table
                return table
        except InvalidArgumentError:
            with self._lock:
                self._open.pop(name, None)
        raise InvalidArgumentError(self._no_table(name))

    def _no_table(self, name: str) -> str:
        tables = self.tables()
        short = name.rpartition(".")[2].lower()
        near = [table for table in tables if table.rpartition(".")[2].lower() == short]
        if near:
            return f"there is no table {name[:100]!r}; did you mean {near[0]}?"
        return f"there is no table {name[:100]!r}; find_tables finds some of the {len(tables)}"

    def at(self, name: str, snapshot: int | None) -> Table:
        """Returns a table at a snapshot. ``None`` means the newest snapshot."""
        table = self.table(name)
        if snapshot is None or snapshot == table.snapshot:
            return table
        return table.at(snapshot=snapshot)

    # ------------------------------------------------------------------ what is said

    def checks(self, table: Table) -> list[Check]:
        """Returns the checks of a table's claims, except checks that name a hidden table."""
        return self.shown(table.check())

    def shown(self, checks: Iterable[Check]) -> list[Check]:
        """Drops the checks that name a hidden table."""
        hidden = self.hidden()
        return [check for check in checks if not hidden or not _named(check, hidden)]

    def promise(self, table: Table) -> tuple[float | None, float | None]:
        """Returns the age of the rows and the promised age, in seconds; ``None`` if unknown."""
        changed = table.facts().last_changed
        age = None if changed is None else (dt.datetime.now(dt.UTC) - changed).total_seconds()
        claims = [c for c in table.claims if c.kind == "fresh" and isinstance(c.value, str)]
        try:
            return age, age_seconds(claims[0].value) if claims else None
        except InvalidArgumentError:  # another tool wrote the claim
            return age, None

    def ttl_ms(self, table: Table) -> int:
        """Returns the milliseconds until new rows are promised; 0 if they are overdue."""
        age, promised = self.promise(table)
        if promised is None:
            return _TTL_MS
        left = 0.0 if age is None else (promised - age) * 1000
        return max(0, min(int(left), _MOST_TTL_MS))


def _named(check: Check, hidden: Collection[str]) -> bool:
    """Returns whether a claim, or the observation of its check, names a hidden table."""
    value = check.claim.value
    if isinstance(value, dict) and value.get("table") in hidden:
        return True
    texts = [check.observed or "", check.reason or ""]
    if isinstance(value, str) and check.claim.kind != "description":
        texts.append(value)
    return any(
        re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", text)
        for name in hidden
        for text in texts
    )
