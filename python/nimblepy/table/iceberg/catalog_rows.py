"""The rows of a catalog in a SQLite database: which tables there are, and where their metadata is.

The tables of the database are those of Iceberg's JDBC catalogs; pyiceberg and Java use them too.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast
from urllib.parse import parse_qsl, quote, unquote_to_bytes

from nimblepy.cached import cached_property
from nimblepy.errors import CorruptFileError, InvalidArgumentError
from nimblepy.io.fork import no_fork, renew_after_fork, without_fork
from nimblepy.table.base.moved import as_root
from nimblepy.table.iceberg.locations import former_places, place_now

_MAKE = """
CREATE TABLE IF NOT EXISTS iceberg_tables (
    catalog_name VARCHAR(255) NOT NULL,
    table_namespace VARCHAR(255) NOT NULL,
    table_name VARCHAR(255) NOT NULL,
    metadata_location VARCHAR(1000),
    previous_metadata_location VARCHAR(1000),
    iceberg_type VARCHAR(5),
    PRIMARY KEY (catalog_name, table_namespace, table_name)
);
CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
    catalog_name VARCHAR(255) NOT NULL,
    namespace VARCHAR(255) NOT NULL,
    property_key VARCHAR(255) NOT NULL,
    property_value VARCHAR(1000) NOT NULL,
    PRIMARY KEY (catalog_name, namespace, property_key)
);
"""
# The catalog of databases that nimblepy makes.
DEFAULT_NAME = "nimble"
# The catalog whose property the mark of a database is: none has this name.
_MARK = "nimblepy.mark"
_MEMORY = ("", ":memory:")
# What SQLite says of a file that is none of its databases, and of one without the tables.
_NO_CATALOG = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
# Seconds that a statement waits for other processes.
_TIMEOUT = 60.0


class NameTaken(Exception):
    """There is a row of this name."""


# What primary error codes of SQLite mean to the system.
_SYSTEM_ERRORS = {
    sqlite3.SQLITE_READONLY: errno.EACCES,
    sqlite3.SQLITE_PERM: errno.EACCES,
    sqlite3.SQLITE_FULL: errno.ENOSPC,
}


def _system_error(path: str, error: sqlite3.OperationalError) -> OSError:
    """What the system would say of a database that cannot be used."""
    code = _SYSTEM_ERRORS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
    return OSError(f"{path}: {error}") if code is None else OSError(code, str(error), path)


class CatalogRows:
    """The tables and namespaces of one catalog. Thread-safe.

    A connection is opened for each call: that costs less than the call does, and none is shared by
    threads or carried over a fork: a fork waits until the other threads have closed theirs, as it
    does for locks of SQLite. Every change is one transaction. Within :meth:`turn` all calls of the
    thread have one connection.
    """

    def __init__(
        self, uri: str, catalog: str | None = None, *, own_directory: bool = False
    ) -> None:
        """
        Args:
            uri: ``sqlite:///`` and a path, with ``?timeout=`` in seconds if need be; without a path
                the rows are kept in memory.
            catalog: the name under which the rows are kept; ``None`` is the one that the database
                has, as :func:`chosen_name` says.
            own_directory: the first write makes the directory of the database too.

        Raises:
            InvalidArgumentError: the URI has another form; or the database has several catalogs.
            CorruptFileError, OSError: the database cannot be used.
        """
        self.uri = uri
        self._path, self._timeout = _parsed(uri)
        self._own_directory = own_directory
        self._root = ""
        self._has_noted_root = False
        self._read_roots: list[str] = []  # when the location of a table was read last
        self._prepared = False
        # By (namespace, name): the row that was read last, and the location that it means.
        self._placed: dict[tuple[str, str], tuple[tuple[str, ...], str]] = {}
        self._memory: sqlite3.Connection | None = None
        renew_after_fork(self)
        self.renew_after_fork()
        if self._path in _MEMORY:
            self._memory = sqlite3.connect(
                ":memory:", isolation_level=None, check_same_thread=False
            )
        elif not own_directory and not os.path.isdir(os.path.dirname(self._path)):
            raise OSError(f"{self._path}: unable to open the database: no such directory")
        self._typed = True
        self._prepare(make=False)
        self.catalog = chosen_name(self.catalogs(), uri) if catalog is None else catalog

    def set_root(self, root: str) -> None:
        """Tells where the lake is. The database keeps the roots at which tables were written."""
        self._root = as_root(root)

    @property
    def exists(self) -> bool:
        """Whether the database is there: the first write makes it."""
        return self._memory is not None or os.path.exists(self._path)

    def _prepare(self, *, make: bool) -> bool:
        """Whether the database is there, with the tables of a catalog."""
        if self._prepared:
            return True
        if not self.exists:
            if not make:
                return False
            if self._own_directory:
                # The directory may be a link to one that is not there yet.
                os.makedirs(os.path.realpath(os.path.dirname(self._path)), exist_ok=True)
        with self._opened() as database:
            columns = {row[1] for row in database.execute("PRAGMA table_info(iceberg_tables)")}
            if not columns:
                database.executescript(f"BEGIN IMMEDIATE; {_MAKE} COMMIT;")
        # Old databases do not say of what kind a row is; newer ones may have views as well.
        self._typed = not columns or "iceberg_type" in columns
        self._prepared = True
        return True

    @property
    def _is_table(self) -> str:
        self._prepare(make=False)
        return _IS_TABLE if self._typed else "1"

    def renew_after_fork(self) -> None:
        self._lock = threading.RLock()
        self._turn = _Turn()

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        self._prepare(make=True)
        with self._opened() as database:
            yield database

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            if self._turn.database is not None:
                yield self._turn.database
                return
            if self._memory is not None:
                with no_fork(), self._lock:
                    yield self._memory
                return
            with _connection(self._path, self._timeout) as database:
                yield database
        except sqlite3.IntegrityError:
            raise NameTaken from None
        except sqlite3.OperationalError as error:
            raise _system_error(self._path, error) from error
        except sqlite3.DatabaseError as error:
            raise CorruptFileError(f"{self._path}: no catalog: {error}") from error

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Lets nobody else change a table, until this thread has swapped one or the block ends.

        Others can read meanwhile, and wait with their changes, those of other programs too. The
        database lets go of what a process held that was killed. If others do not let this one
        begin in time, the block goes without.
        """
        with contextlib.ExitStack() as stack:
            try:
                database = stack.enter_context(self._connected())
                database.execute("BEGIN IMMEDIATE")
            except (OSError, sqlite3.OperationalError):
                stack.close()
                yield
                return
            self._turn.database = database
            try:
                yield
            finally:
                self._turn.database = None
                if database.in_transaction:
                    database.execute("COMMIT")

    @property
    def file(self) -> str | None:
        """The file of the database; ``None``: it is in memory."""
        return os.path.realpath(self._path) if self._memory is None else None

    def _changed(self, statement: str, *values: str | None) -> int:
        """How many rows a statement changed."""
        if not self._prepare(make=False):
            return 0
        with self._connected() as database:
            return database.execute(statement, values).rowcount

    def _asked(self, statement: str, *values: str) -> list[tuple[str, ...]]:
        if not self._prepare(make=False):
            return []
        with self._connected() as database:
            return database.execute(statement, values).fetchall()

    @cached_property
    def mark(self) -> str:
        """Twelve hexadecimal digits of this database: of a number in it, and of where it lies.

        So a copy of the database has another one.
        """
        place = os.fsencode(os.path.realpath(self._path))
        self._noted("place", quote(place))  # for `original`, in what is copied from now on
        return hashlib.sha256(f"{self._number} ".encode() + place).hexdigest()[:12]

    @property
    def _number(self) -> str:
        """A number of the database and its copies."""
        return self._noted("mark", secrets.token_hex(8))

    def _noted(self, name: str, value: str) -> str:
        """What is noted of the database under a name; ``value``, if that is nothing yet."""
        self._prepare(make=True)
        self._changed(
            "INSERT OR IGNORE INTO iceberg_namespace_properties VALUES (?, ?, ?, ?)",
            *(_MARK, "", name, value),
        )
        ((found,),) = self._asked(_NOTE, _MARK, "", name)
        return found

    def original(self) -> str | None:
        """The file of the database that this is a copy of, if it is where it was.

        Its tables have the same files as those of this one. A database that was moved is none.

        Raises:
            OSError: there is a file where it was, which cannot be read.
        """
        own = self.file
        if own is None:
            return None
        here = quote(os.fsencode(own))
        there = self._noted("place", here)
        first = os.fsdecode(unquote_to_bytes(there))
        if there == here or not os.path.isfile(first):
            found = None
        else:
            try:
                with _connection(first, self._timeout) as database:
                    found = database.execute(_NOTE, (_MARK, "", "mark")).fetchone()
            except sqlite3.Error as error:
                if error.sqlite_errorcode not in _NO_CATALOG:
                    raise OSError(
                        f"{first}: {error}; so it is not known whether {own} is a copy of it, "
                        "whose tables have the same files"
                    ) from error
                found = None
        if found == (self._number,) and not os.path.samefile(first, own):
            return first
        if there != here:
            self._changed(
                "UPDATE iceberg_namespace_properties SET property_value = ? "
                "WHERE catalog_name = ? AND namespace = ? AND property_key = ?",
                *(here, _MARK, "", "place"),
            )
        return None

    def catalogs(self) -> list[str]:
        """Names of the catalogs that have something in the database."""
        found = self._asked(
            "SELECT catalog_name FROM iceberg_tables UNION "
            "SELECT catalog_name FROM iceberg_namespace_properties ORDER BY 1"
        )
        return [name for (name,) in found]

    # ------------------------------------------------------------------ tables

    def location(self, namespace: str, name: str) -> str | None:
        """Where the newest metadata of a table is; ``None``: there is no such table."""
        if self._prepared and self._memory is None and self._turn.database is None:
            row: tuple[str, ...] | None = without_fork(self._read_location, namespace, name)
        else:
            statement = _LOCATION.format(self._is_table)
            values = (_MARK, "", "roots", self.catalog, namespace, name)
            row = next(iter(self._asked(statement, *values)), None)
        if row is None or not row[0]:
            return None
        last = self._placed.get((namespace, name))
        if last is not None and last[0] == row:
            return last[1]
        self._read_roots = _roots_in(row[1])
        location = place_now(row[0], self._root, self._read_roots)
        if location == row[0] and self._root and location.startswith(f"{self._root}/"):
            self._placed[namespace, name] = row, location  # below the root, it cannot have moved
        return location

    def _read_location(self, namespace: str, name: str) -> tuple[str, ...] | None:
        """The row of a table, by a connection of its own to a database that exists."""
        statement = _LOCATION.format(_IS_TABLE if self._typed else "1")
        values = (_MARK, "", "roots", self.catalog, namespace, name)
        try:
            database = sqlite3.connect(self._path, timeout=self._timeout, isolation_level=None)
            try:
                row: tuple[str, ...] | None = database.execute(statement, values).fetchone()
            finally:
                database.close()
        except sqlite3.OperationalError as error:
            raise _system_error(self._path, error) from error
        except sqlite3.DatabaseError as error:
            raise CorruptFileError(f"{self._path}: no catalog: {error}") from error
        return row

    def _roots(self) -> list[str]:
        """The roots at which the lake was written."""
        found = self._asked(_NOTE, _MARK, "", "roots")
        return _roots_in(found[0][0] if found else None)

    def _note_root(self) -> None:
        """Notes where the lake is, before the first write there."""
        if self._root and not self._has_noted_root:
            roots = self._roots()
            if self._root not in roots:
                text = json.dumps([*roots, self._root])
                self._changed(
                    "INSERT OR REPLACE INTO iceberg_namespace_properties VALUES (?, ?, ?, ?)",
                    *(_MARK, "", "roots", text),
                )
            self._has_noted_root = True

    def _former(self, location: str) -> list[str]:
        """A location, and the paths by which the database may have it."""
        return former_places(location, self._root, self._roots())

    def has_location(self, location: str) -> bool:
        """Whether this is the newest metadata of any table, of any catalog in the database."""
        places = self._former(location)
        return bool(
            self._asked(
                f"SELECT 1 FROM iceberg_tables WHERE metadata_location IN ({_marks(places)})",
                *places,
            )
        )

    def locations(self) -> list[tuple[tuple[str, str, str], str]]:
        """((catalog, namespace, table), location) of each table of all catalogs in the database."""
        found = self._asked(
            "SELECT catalog_name, table_namespace, table_name, metadata_location "
            f"FROM iceberg_tables WHERE {self._is_table} AND metadata_location IS NOT NULL"
        )
        roots = self._roots()
        return [
            ((catalog, space, name), place_now(place, self._root, roots))
            for catalog, space, name, place in found
        ]

    def add(self, namespace: str, name: str, location: str) -> None:
        """
        Raises:
            NameTaken: there is such a table, or a view of this name.
        """
        self._prepare(make=True)
        self._note_root()
        kind, value = (", iceberg_type", ", 'TABLE'") if self._typed else ("", "")
        self._changed(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, "
            f"metadata_location{kind}) VALUES (?, ?, ?, ?{value})",
            self.catalog,
            namespace,
            name,
            location,
        )

    def swap(self, namespace: str, name: str, old: str, new: str) -> bool:
        """Gives a table new metadata if its metadata is still at ``old``; whether it was."""
        self._note_root()
        places = former_places(old, self._root, self._read_roots)
        values = (new, old, self.catalog, namespace, name, *places)
        with self._connected() as database:
            done = database.execute(
                "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ? "
                f"WHERE {_TABLE} AND metadata_location IN ({_marks(places)})",
                values,
            ).rowcount
            if database.in_transaction:  # here a turn ends
                try:
                    database.execute("COMMIT")
                except sqlite3.Error:
                    if database.in_transaction:
                        database.execute("ROLLBACK")
                    raise
        row, place = self._placed.get((namespace, name), ((), ""))
        if done > 0 and place and row[0] == place:  # the lake was not moved
            self._placed[namespace, name] = (new, *row[1:]), new
        return done > 0

    def remove(self, namespace: str, name: str, location: str | None = None) -> bool:
        """Forgets a table, if its metadata is still at ``location``; whether there was one."""
        statement = f"DELETE FROM iceberg_tables WHERE {_TABLE} AND {self._is_table}"
        places = [] if location is None else self._former(location)
        if places:
            statement += f" AND metadata_location IN ({_marks(places)})"
        return self._changed(statement, self.catalog, namespace, name, *places) > 0

    def rename(self, old: tuple[str, str], new: tuple[str, str]) -> bool:
        """Gives a table another (namespace, name); whether there was one.

        Raises:
            NameTaken: there is a table of the new name.
        """
        done = self._changed(
            "UPDATE iceberg_tables SET table_namespace = ?, table_name = ? "
            f"WHERE {_TABLE} AND {self._is_table}",
            *new,
            self.catalog,
            *old,
        )
        return done > 0

    def names(self, namespace: str) -> list[str]:
        """Of the tables of a namespace."""
        found = self._asked(
            "SELECT table_name FROM iceberg_tables "
            f"WHERE catalog_name = ? AND table_namespace = ? AND {self._is_table}",
            self.catalog,
            namespace,
        )
        return [name for (name,) in found]

    # ------------------------------------------------------------------ namespaces

    def namespaces(self) -> list[str]:
        """Those that were made, and those of tables."""
        found = self._asked(
            "SELECT table_namespace FROM iceberg_tables WHERE catalog_name = ? "
            "UNION SELECT namespace FROM iceberg_namespace_properties WHERE catalog_name = ?",
            self.catalog,
            self.catalog,
        )
        return [name for (name,) in found]

    def add_namespace(self, namespace: str, properties: Mapping[str, str]) -> None:
        """
        Raises:
            NameTaken: there is such a namespace.
        """
        self._write_properties(namespace, (), properties)

    def properties(self, namespace: str) -> dict[str, str]:
        """What is said of a namespace."""
        found = self._asked(
            "SELECT property_key, property_value FROM iceberg_namespace_properties "
            "WHERE catalog_name = ? AND namespace = ?",
            self.catalog,
            namespace,
        )
        return dict(cast(list[tuple[str, str]], found))

    def change_properties(
        self, namespace: str, removed: Iterable[str], updated: Mapping[str, str]
    ) -> None:
        """Changes what is said of a namespace, in one step."""
        self._write_properties(namespace, {*removed, *updated}, updated)

    def _write_properties(
        self, namespace: str, removed: Iterable[str], added: Mapping[str, str]
    ) -> None:
        where = (self.catalog, namespace)
        with self._connected() as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                database.executemany(
                    "DELETE FROM iceberg_namespace_properties "
                    "WHERE catalog_name = ? AND namespace = ? AND property_key = ?",
                    [(*where, key) for key in removed],
                )
                database.executemany(
                    "INSERT INTO iceberg_namespace_properties VALUES (?, ?, ?, ?)",
                    [(*where, key, value) for key, value in added.items()],
                )
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")

    def remove_namespace(self, namespace: str) -> None:
        """Forgets a namespace that has no tables."""
        self._changed(
            "DELETE FROM iceberg_namespace_properties WHERE catalog_name = ? AND namespace = ?",
            self.catalog,
            namespace,
        )


def chosen_name(names: Sequence[str], uri: str) -> str:
    """Which of the catalogs in a database is meant if none is named.

    Raises:
        InvalidArgumentError: it has several, of which none is nimblepy's own.
    """
    names = [name for name in names if name != _MARK]
    if not names or DEFAULT_NAME in names:
        return DEFAULT_NAME
    if len(names) > 1:
        shown = ", ".join(map(repr, names))
        raise InvalidArgumentError(
            f"connect {uri!r}: the database has the catalogs {shown}; choose one with name="
        )
    return names[0]


@contextlib.contextmanager
def _connection(path: str, timeout: float) -> Iterator[sqlite3.Connection]:
    """A connection to a database until the block ends.

    A child that was forked meanwhile would wait for ever: for a mutex of SQLite that the thread
    had, or for a lock of the database, which SQLite would take for one of the child's own.
    """
    with no_fork():
        made = sqlite3.connect(path, timeout=timeout, isolation_level=None)
        with contextlib.closing(made) as database:
            yield database


class _Turn(threading.local):
    """The connection of a thread that has its turn."""

    database: sqlite3.Connection | None = None


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))


def _roots_in(text: str | None) -> list[str]:
    """The roots in a note of a database."""
    try:
        said = json.loads(text or "[]")
    except ValueError:
        return []
    return [item for item in said if isinstance(item, str)] if isinstance(said, list) else []


_NOTE = (
    "SELECT property_value FROM iceberg_namespace_properties "
    "WHERE catalog_name = ? AND namespace = ? AND property_key = ?"
)
_TABLE = "catalog_name = ? AND table_namespace = ? AND table_name = ?"
_IS_TABLE = "coalesce(iceberg_type, 'TABLE') = 'TABLE'"
_LOCATION = f"SELECT metadata_location, ({_NOTE}) FROM iceberg_tables WHERE {_TABLE} AND {{}}"


def _parsed(uri: str) -> tuple[str, float]:
    """(path, seconds to wait) of a URI."""
    place, _, query = uri.partition("?")
    given = dict(parse_qsl(query, keep_blank_values=True))
    timeout = given.pop("timeout", str(_TIMEOUT))
    if place.startswith("sqlite:///"):
        path = place.removeprefix("sqlite:///")
        if path not in _MEMORY:
            path = os.path.abspath(path)  # the process may go elsewhere
    elif place == "sqlite://":
        path = ""
    else:
        raise InvalidArgumentError(f"connect {uri!r}: expected sqlite:/// and a path")
    try:
        seconds = float(timeout)
    except ValueError:
        raise InvalidArgumentError(f"connect {uri!r}: timeout={timeout!r} is no number") from None
    if given:
        raise InvalidArgumentError(
            f"connect {uri!r}: of parameters only timeout is known, not {', '.join(given)}"
        )
    return path, seconds
