"""Reads and changes the rows of a catalog in SQLite: table names and their metadata paths.

The database has the tables of Iceberg's JDBC catalogs, which pyiceberg and Java also use.
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
# Name of the catalog in databases that nimblepy creates.
DEFAULT_NAME = "nimble"
# The mark of a database is stored under this catalog name, which no real catalog uses.
_MARK = "nimblepy.mark"
_MEMORY = ("", ":memory:")
# Error codes of SQLite for a file that is not a database, and for a database without the tables.
_NO_CATALOG = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
# Seconds that a statement waits for other processes.
_TIMEOUT = 60.0


class NameTaken(Exception):
    """A row with this name already exists."""


# The `errno` value for primary error codes of SQLite.
_SYSTEM_ERRORS = {
    sqlite3.SQLITE_READONLY: errno.EACCES,
    sqlite3.SQLITE_PERM: errno.EACCES,
    sqlite3.SQLITE_FULL: errno.ENOSPC,
}


def _system_error(path: str, error: sqlite3.OperationalError) -> OSError:
    """Returns the OSError for a database that cannot be used, with a fitting ``errno`` if any."""
    if path not in _MEMORY and not os.path.exists(path):
        message = "the database of the catalog is missing; was it moved or removed?"
        return FileNotFoundError(errno.ENOENT, message, path)
    code = _SYSTEM_ERRORS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
    return OSError(f"{path}: {error}") if code is None else OSError(code, str(error), path)


def _is_busy(error: Exception) -> bool:
    """Returns whether another connection has the lock."""
    cause = error if isinstance(error, sqlite3.OperationalError) else error.__cause__
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class CatalogRows:
    """The tables and namespaces of one catalog. Thread-safe.

    Each call opens its own connection, which costs less than the call itself. Threads do not share
    connections. No connection survives a fork: a fork waits until the other threads have closed
    their connections and released SQLite's locks. Every change is one transaction. Within
    :meth:`turn`, all calls of the thread use one connection.
    """

    def __init__(
        self, uri: str, catalog: str | None = None, *, own_directory: bool = False
    ) -> None:
        """
        Args:
            uri: ``sqlite:///`` and a path, optionally with ``?timeout=`` in seconds. Without a path
                the rows are kept in memory.
            catalog: the catalog name of the rows. ``None`` uses the catalog of the database that
                :func:`chosen_name` selects.
            own_directory: whether the first write also makes the directory of the database.

        Raises:
            InvalidArgumentError: the URI has another form, or the database has several catalogs.
            CorruptFileError, OSError: the database cannot be used.
        """
        self.uri = uri
        self._path, self._timeout = _parsed(uri)
        self._uri = _uri(self._path)
        self._own_directory = own_directory
        self._root = ""
        self._has_noted_root = False
        self._read_roots: list[str] = []  # as of the last read of a table's location
        self._prepared = False
        # By (namespace, name): the row that was read last, and the path it means.
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
        """Sets the root of the lake. The database stores all roots at which tables were written."""
        self._root = as_root(root)

    @property
    def exists(self) -> bool:
        """Whether the database has a catalog. The first write creates it."""
        return self._prepare(make=False)

    def _prepare(self, *, make: bool) -> bool:
        """Returns whether the database exists and has the tables of a catalog; ``make`` creates
        them.
        """
        if self._prepared:
            return True
        if self._memory is None and not os.path.exists(self._path):
            if not make:
                return False
            if self._own_directory:
                # The directory may be a link whose target does not exist yet.
                os.makedirs(os.path.realpath(os.path.dirname(self._path)), exist_ok=True)
        with self._opened(make=make) as database:
            columns = {row[1] for row in database.execute("PRAGMA table_info(iceberg_tables)")}
            if not columns:
                if not make:
                    return False
                database.executescript(f"BEGIN IMMEDIATE; {_MAKE} COMMIT;")
        # Old databases do not store the type of a row. New ones may contain views.
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
    def _opened(self, *, make: bool = False) -> Iterator[sqlite3.Connection]:
        try:
            if self._turn.database is not None:
                yield self._turn.database
                return
            if self._memory is not None:
                with no_fork(), self._lock:
                    yield self._memory
                return
            with _connection(self._path, self._timeout, make=make) as database:
                yield database
        except _ERRORS as error:
            raise _library_error(self._path, error) from error

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Holds the write lock of the database until this thread swaps a table or the block ends.

        Other threads and programs can read meanwhile; their changes wait. SQLite releases the lock
        if the process is killed. If the lock cannot be acquired within the timeout, the block runs
        without it.
        """
        with contextlib.ExitStack() as stack:
            try:
                database = stack.enter_context(self._connected())
                database.execute("BEGIN IMMEDIATE")
            except (OSError, sqlite3.OperationalError) as error:
                stack.close()
                if not _is_busy(error):
                    raise
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
        """The file of the database, or ``None`` for a database in memory."""
        return os.path.realpath(self._path) if self._memory is None else None

    def _changed(self, statement: str, *values: str | None) -> int:
        """Runs a statement and returns the number of rows it changed."""
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
        """Twelve hexadecimal digits: a hash of the database's number and its path.

        Therefore a copy of the database has a different mark.
        """
        place = os.fsencode(os.path.realpath(self._path))
        # store the path, so that `original` recognizes later copies
        self._noted("place", quote(place))
        return hashlib.sha256(f"{self._number} ".encode() + place).hexdigest()[:12]

    def mark_for(self, root: str | None) -> str:
        """Returns twelve hexadecimal digits that identify this database in files below a root.

        A move of the root together with the database does not change them. ``None`` returns
        :attr:`mark`.
        """
        if root is None or not root.startswith("file://") or self.file is None:
            return self.mark
        folder = os.path.realpath(root.removeprefix("file://"))
        place = os.fsencode(os.path.relpath(self.file, folder))
        return hashlib.sha256(f"{self._number} ".encode() + place).hexdigest()[:12]

    @property
    def _number(self) -> str:
        """A random number that the database shares with its copies."""
        return self._noted("mark", secrets.token_hex(8))

    def _noted(self, name: str, value: str) -> str:
        """Returns the value stored under a name. Stores ``value`` first if it is unset."""
        stored = self._asked(_NOTE, _MARK, "", name)
        if stored:  # read first without the write lock, which another process may hold
            return stored[0][0]
        self._prepare(make=True)
        self._changed(
            "INSERT OR IGNORE INTO iceberg_namespace_properties VALUES (?, ?, ?, ?)",
            *(_MARK, "", name, value),
        )
        ((stored_value,),) = self._asked(_NOTE, _MARK, "", name)
        return stored_value

    def original(self) -> str | None:
        """Returns the file of the database that this one was copied from, if it still exists there.

        The tables of both databases have the same files. A moved database does not count as a copy.

        Raises:
            OSError: the file at the original path cannot be read.
        """
        own = self.file
        if own is None:
            return None
        here = quote(os.fsencode(own))
        there = self._noted("place", here)
        noted = os.fsdecode(unquote_to_bytes(there))
        if there == here or not os.path.isfile(noted):
            number_there = None
        else:
            try:
                with _connection(noted, self._timeout) as database:
                    number_there = database.execute(_NOTE, (_MARK, "", "mark")).fetchone()
            except sqlite3.Error as error:
                if error.sqlite_errorcode not in _NO_CATALOG:
                    raise OSError(
                        f"cannot read {noted}: {error}. It may be the original of {own}, "
                        "whose tables would then have the same files"
                    ) from error
                number_there = None
        if number_there == (self._number,) and not os.path.samefile(noted, own):
            return noted
        if there != here:
            self._changed(
                "UPDATE iceberg_namespace_properties SET property_value = ? "
                "WHERE catalog_name = ? AND namespace = ? AND property_key = ?",
                *(here, _MARK, "", "place"),
            )
        return None

    def catalogs(self) -> list[str]:
        """Returns the names of the catalogs that have rows in the database."""
        rows = self._asked(
            "SELECT catalog_name FROM iceberg_tables UNION "
            "SELECT catalog_name FROM iceberg_namespace_properties ORDER BY 1"
        )
        return [name for (name,) in rows]

    # ------------------------------------------------------------------ tables

    def location(self, namespace: str, name: str) -> str | None:
        """Returns the path of the newest metadata of a table, or ``None`` if the table does not
        exist.
        """
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
            self._placed[namespace, name] = row, location  # a path below the root is current
        return location

    def _read_location(self, namespace: str, name: str) -> tuple[str, ...] | None:
        """Reads the row of a table through a new connection. The database must exist."""
        statement = _LOCATION.format(_IS_TABLE if self._typed else "1")
        values = (_MARK, "", "roots", self.catalog, namespace, name)
        try:
            database = sqlite3.connect(
                self._uri, timeout=self._timeout, isolation_level=None, uri=True
            )
            with contextlib.closing(database):
                row: tuple[str, ...] | None = database.execute(statement, values).fetchone()
        except _ERRORS as error:
            raise _library_error(self._path, error) from error
        return row

    def _roots(self) -> list[str]:
        """Returns the roots at which the lake was written."""
        rows = self._asked(_NOTE, _MARK, "", "roots")
        return _roots_in(rows[0][0] if rows else None)

    def _note_root(self) -> None:
        """Stores the current root of the lake, before the first write there."""
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
        """Returns a location and the older paths under which the database may store it."""
        return former_places(location, self._root, self._roots())

    def has_location(self, location: str) -> bool:
        """Returns whether this is the newest metadata of a table in any catalog of the database."""
        places = self._former(location)
        return bool(
            self._asked(
                f"SELECT 1 FROM iceberg_tables WHERE metadata_location IN ({_marks(places)})",
                *places,
            )
        )

    def locations(self) -> list[tuple[tuple[str, str, str], str]]:
        """Returns ((catalog, namespace, table), location) of each table of all catalogs in the
        database.
        """
        rows = self._asked(
            "SELECT catalog_name, table_namespace, table_name, metadata_location "
            f"FROM iceberg_tables WHERE {self._is_table} AND metadata_location IS NOT NULL"
        )
        roots = self._roots()
        return [
            ((catalog, space, name), place_now(place, self._root, roots))
            for catalog, space, name, place in rows
        ]

    def add(self, namespace: str, name: str, location: str) -> None:
        """
        Raises:
            NameTaken: a table or a view of this name exists.
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
        """Replaces the metadata of a table if it is still at ``old``. Returns whether it was."""
        self._note_root()
        places = former_places(old, self._root, self._read_roots)
        values = (new, old, self.catalog, namespace, name, *places)
        with self._connected() as database:
            done = database.execute(
                "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ? "
                f"WHERE {_TABLE} AND metadata_location IN ({_marks(places)})",
                values,
            ).rowcount
            if database.in_transaction:  # a swap ends the turn
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
        """Removes a table, and returns whether it did.

        With ``location``, removes it only if its metadata is still there.
        """
        statement = f"DELETE FROM iceberg_tables WHERE {_TABLE} AND {self._is_table}"
        places = [] if location is None else self._former(location)
        if places:
            statement += f" AND metadata_location IN ({_marks(places)})"
        return self._changed(statement, self.catalog, namespace, name, *places) > 0

    def rename(self, old: tuple[str, str], new: tuple[str, str]) -> bool:
        """Gives a table another (namespace, name). Returns whether the table existed.

        Raises:
            NameTaken: a table of the new name exists.
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
        """Returns the names of the tables of a namespace."""
        rows = self._asked(
            "SELECT table_name FROM iceberg_tables "
            f"WHERE catalog_name = ? AND table_namespace = ? AND {self._is_table}",
            self.catalog,
            namespace,
        )
        return [name for (name,) in rows]

    # ------------------------------------------------------------------ namespaces

    def namespaces(self) -> list[str]:
        """Namespaces that were created explicitly, and namespaces of tables."""
        rows = self._asked(
            "SELECT table_namespace FROM iceberg_tables WHERE catalog_name = ? "
            "UNION SELECT namespace FROM iceberg_namespace_properties WHERE catalog_name = ?",
            self.catalog,
            self.catalog,
        )
        return [name for (name,) in rows]

    def add_namespace(self, namespace: str, properties: Mapping[str, str]) -> None:
        """
        Raises:
            NameTaken: the namespace exists.
        """
        self._write_properties(namespace, (), properties)

    def properties(self, namespace: str) -> dict[str, str]:
        """Returns the properties of a namespace."""
        rows = self._asked(
            "SELECT property_key, property_value FROM iceberg_namespace_properties "
            "WHERE catalog_name = ? AND namespace = ?",
            self.catalog,
            namespace,
        )
        return dict(cast(list[tuple[str, str]], rows))

    def change_properties(
        self, namespace: str, removed: Iterable[str], updated: Mapping[str, str]
    ) -> None:
        """Removes and sets properties of a namespace in one transaction."""
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
        """Removes a namespace that has no tables."""
        self._changed(
            "DELETE FROM iceberg_namespace_properties WHERE catalog_name = ? AND namespace = ?",
            self.catalog,
            namespace,
        )


def chosen_name(names: Sequence[str], uri: str) -> str:
    """Returns the catalog of a database to use when the caller does not name one.

    Raises:
        InvalidArgumentError: the database has several catalogs, but not nimblepy's own.
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


def _uri(path: str, *, make: bool = False) -> str:
    """Returns the URI of a database that is created only with ``make``."""
    return f"file:{quote(os.fsencode(path))}?mode={'rwc' if make else 'rw'}"


_ERRORS = (sqlite3.DatabaseError, UnicodeDecodeError)


def _library_error(path: str, error: Exception) -> Exception:
    """Returns the error of nimblepy for an error of SQLite."""
    if isinstance(error, sqlite3.IntegrityError):
        return NameTaken()
    if isinstance(error, sqlite3.OperationalError):
        return _system_error(path, error)
    return CorruptFileError(
        f"{path}: not the database of a catalog, or damaged: {error}; restore it from a backup"
    )


@contextlib.contextmanager
def _connection(path: str, timeout: float, *, make: bool = False) -> Iterator[sqlite3.Connection]:
    """Opens a connection to a database until the block ends. Forks wait until then.

    A child forked in between would wait forever for a mutex of SQLite that this thread held. Or it
    would wait for a lock of the database that SQLite mistakes for the child's own.
    """
    with no_fork():
        uri = _uri(path, make=make)
        connection = sqlite3.connect(uri, timeout=timeout, isolation_level=None, uri=True)
        with contextlib.closing(connection) as database:
            yield database


class _Turn(threading.local):
    """The connection of a thread that holds the write lock; see :meth:`CatalogRows.turn`."""

    database: sqlite3.Connection | None = None


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))


def _roots_in(text: str | None) -> list[str]:
    """Returns the roots in a stored JSON list."""
    try:
        roots = json.loads(text or "[]")
    except ValueError:
        return []
    return [item for item in roots if isinstance(item, str)] if isinstance(roots, list) else []


_NOTE = (
    "SELECT property_value FROM iceberg_namespace_properties "
    "WHERE catalog_name = ? AND namespace = ? AND property_key = ?"
)
_TABLE = "catalog_name = ? AND table_namespace = ? AND table_name = ?"
_IS_TABLE = "coalesce(iceberg_type, 'TABLE') = 'TABLE'"
_LOCATION = f"SELECT metadata_location, ({_NOTE}) FROM iceberg_tables WHERE {_TABLE} AND {{}}"


def _parsed(uri: str) -> tuple[str, float]:
    """Returns (path, seconds to wait) of a URI."""
    place, _, query = uri.partition("?")
    given = dict(parse_qsl(query, keep_blank_values=True))
    timeout = given.pop("timeout", str(_TIMEOUT))
    if place.startswith("sqlite:///"):
        path = place.removeprefix("sqlite:///")
        if path not in _MEMORY:
            # absolute, because the process may change its working directory
            path = os.path.abspath(path)
    elif place == "sqlite://":
        path = ""
    else:
        raise InvalidArgumentError(f"connect {uri!r}: expected sqlite:/// and a path")
    try:
        seconds = float(timeout)
    except ValueError:
        raise InvalidArgumentError(
            f"connect {uri!r}: timeout={timeout!r} is not a number; expected seconds"
        ) from None
    if given:
        raise InvalidArgumentError(
            f"connect {uri!r}: unknown parameters {', '.join(given)}; only timeout is supported"
        )
    return path, seconds
