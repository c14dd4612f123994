"""Catalogs: map the names of tables to their newest metadata."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from nimblepy.cached import cached_property
from nimblepy.errors import InvalidArgumentError
from nimblepy.io.location import is_uri
from nimblepy.io.log import logger
from nimblepy.io.time_limit import checked_timeout, limit_reads_below
from nimblepy.schema.protocols import Tabular
from nimblepy.schema.types import SortKey, as_sort_keys
from nimblepy.table import iceberg as ice
from nimblepy.table.base.arguments import text_of, texts_of
from nimblepy.table.base.creations import forget_creation
from nimblepy.table.base.model import COMMENT, DataFormat
from nimblepy.table.base.places import (
    check_part,
    new_location,
    parse_name,
    readable_path,
    remove_file,
)
from nimblepy.table.base.types import check_keys, table_schema
from nimblepy.table.iceberg.catalog_rows import DEFAULT_NAME, CatalogRows
from nimblepy.table.iceberg.pointer_rows import PointerRows, is_lake
from nimblepy.table.otree.layouts import Layout, check_layout, layout_property

# The modules that read and write tables are imported with the first table, not by `connect`.
if TYPE_CHECKING:
    from nimblepy.file.options import HashIndex, SortedIndex, VectorIndex, WriteOptions
    from nimblepy.file.write import ClusterBy
    from nimblepy.table.claims.checks import Checks
    from nimblepy.table.lake import JoinPath
    from nimblepy.table.table import Table

_log = logger(__name__)

# URI schemes of object stores.
_BUCKETS = ("s3:", "s3a:", "s3n:", "gs:", "gcs:", "az:", "abfs:", "abfss:", "wasb:", "wasbs:")


def connect(
    target: str | os.PathLike[str] | None = None,
    *,
    catalog: Any = None,
    name: str | None = None,
    properties: Mapping[str, str] | None = None,
    create: bool = True,
    timeout: float | None = None,
) -> Catalog:
    """Opens a catalog of tables.

    Args:
        target: a directory, or its ``file://`` URI. The catalog is a SQLite database in it, and
            the tables are below it. The first write makes both. Or a place in a bucket, such as
            ``s3://bucket/lake`` (``gs://``, ``az://``, ``abfs://``): the catalog is a small object
            per table, which a commit replaces by a conditional put. No database is needed. Or the
            URI of a catalog that pyiceberg knows: ``sqlite:///path``, ``rest:https://...``,
            ``thrift://...``.
        catalog: a pyiceberg catalog, instead of ``target``. Or ``"files"``: the catalog in a
            directory is made of files, as in a bucket, instead of a database. An existing catalog
            of this kind is recognized without the argument.
        name: of the catalog. A SQL database may have several, each with tables of its own:
            ``SqlCatalog("prod", ...)`` of pyiceberg makes the catalog ``"prod"``. By default the
            one that nimblepy made, or the only one in the database.
        properties: passed to pyiceberg: ``warehouse``, credentials, ...
        create: ``False`` raises if the directory, bucket or SQLite database has no catalog.
        timeout: limit of one read call of a store in seconds, retries included, for all files below
            the lake or below a table that is opened with it. The limit applies to the whole
            process. If a place gets several limits, the last one applies.

    Raises:
        TimeoutError: a store did not answer within ``timeout``; later reads raise it too.
        InvalidArgumentError: neither or both of ``target`` and a pyiceberg ``catalog`` are given;
            the target is neither a directory nor a URI; the database has several catalogs and
            ``name`` is missing; there is no catalog and ``create`` is false; the bucket's store has
            no conditional put, or ignores the condition.
        MissingExtraError: pyiceberg is not installed (``nimblepy[table]``).

    Cost: reads no table. For a directory or ``sqlite:``, the first table loads pyiceberg. Testing a
    bucket takes three requests, or six if it has no catalog yet.
    """
    limit = checked_timeout(timeout)
    if limit is not None:
        for place in (target, (properties or {}).get("warehouse")):
            if isinstance(place, str) and is_uri(place):
                limit_reads_below(place, limit)
    opened = _connect(target, catalog, name, dict(properties or {}), create)
    opened.timeout = limit
    return opened


def _connect(
    target: str | os.PathLike[str] | None,
    catalog: Any,
    name: str | None,
    given: dict[str, str],
    create: bool,
) -> Catalog:
    kind = catalog if catalog in ("files", "sqlite") else None
    if kind is not None:
        catalog = None
    if (target is None) == (catalog is None):
        raise InvalidArgumentError(
            "connect: give exactly one of target (a directory or URI) and a pyiceberg catalog="
        )
    if catalog is not None:
        if not ice.is_catalog(catalog):
            raise InvalidArgumentError(
                f"connect: catalog={catalog!r} is not a pyiceberg catalog; expected a pyiceberg "
                "Catalog or 'files'"
            )
        return Catalog(lambda: catalog, None, {})
    assert target is not None
    named = text_of(name, "connect: name") if name is not None else given.pop("name", None)
    if not isinstance(target, (str, os.PathLike)):
        raise InvalidArgumentError(
            f"connect: expected a directory or the URI of a catalog, got {target!r}"
        )
    text = readable_path(os.fspath(target))  # file:///lake is the directory /lake
    is_address = is_uri(text) or re.match(r"[a-z0-9]+\+[a-z0-9_]+://|rest:|sqlite:", text)
    is_bucket = text.startswith(_BUCKETS)
    if is_address and (kind == "sqlite" or (kind == "files" and not is_bucket)):
        raise InvalidArgumentError(
            f"connect {text!r}: catalog={kind!r} needs a directory as the target"
        )
    if text.startswith("sqlite:"):
        warehouse = given.get("warehouse") or _warehouse_of(text)
        more = {key: value for key, value in given.items() if key != "warehouse"}
        return _sqlite(CatalogRows(text, named), text, create, warehouse, given, more)
    if is_bucket:
        if named is not None or given:
            option = "name" if named is not None else "properties"
            raise InvalidArgumentError(
                f"connect {text!r}: a catalog in a bucket takes no {option}; set environment "
                "variables to configure the store"
            )
        return _of_pointers(text, text, create)
    # SQLAlchemy's URIs may name a driver, as in postgresql+psycopg://.
    if is_uri(text) or re.match(r"[a-z0-9]+\+[a-z0-9_]+://|rest:", text):
        found = ice.open_uri(text, named, given)
        return Catalog(lambda: found, text, given if named is None else {**given, "name": named})
    directory = checked_directory(os.path.expanduser(text))
    if _has_pointers(directory, kind):
        return _of_pointers(f"file://{directory}", directory, create)
    rows = CatalogRows(f"sqlite:///{directory}/catalog.db?timeout=60", named, own_directory=True)
    return _sqlite(rows, directory, create, f"file://{directory}", {}, {})


def _has_pointers(directory: str, kind: str | None) -> bool:
    """Returns whether a directory's catalog consists of files.

    ``kind`` is the kind that the caller asked for.
    """
    there = (
        "files"
        if is_lake(directory)
        else "sqlite"
        if os.path.exists(os.path.join(directory, "catalog.db"))
        else None
    )
    if None not in (kind, there) and kind != there:
        raise InvalidArgumentError(
            f"connect {directory!r}: it already has a catalog of the kind {there!r}, not {kind!r}; "
            "omit catalog="
        )
    return (there or kind) == "files"


def _of_pointers(root: str, target: str, create: bool, *, test: bool = True) -> Catalog:
    """Returns the catalog of a bucket, or of a directory with ``catalog="files"``."""
    rows = PointerRows(root, test=test)
    if not create and not rows.exists:
        raise InvalidArgumentError(
            f"connect {target!r}: there is no catalog; create=True makes one"
        )
    return Catalog(lambda: ice.open_pointers(rows), target, {}, pointers=root)


def _sqlite(
    rows: CatalogRows,
    target: str,
    create: bool,
    warehouse: str,
    given: Mapping[str, str],
    properties: Mapping[str, str],
) -> Catalog:
    """Returns the catalog in a SQLite database.

    pyiceberg is loaded with the first table, because importing it takes most of the start-up time.
    """
    if not create and not rows.exists:
        raise InvalidArgumentError(
            f"connect {target!r}: there is no catalog; create=True makes one"
        )
    kept = dict(given) if rows.catalog == DEFAULT_NAME else {**given, "name": rows.catalog}
    return Catalog(lambda: ice.open_sqlite(rows, warehouse, **properties), target, kept)


def _warehouse_of(uri: str) -> str:
    path = uri.removeprefix("sqlite:///").partition("?")[0]
    if not path or path == ":memory:":
        raise InvalidArgumentError(
            f"connect {uri!r}: the property 'warehouse' is missing; set it to the directory of the "
            "tables"
        )
    return f"file://{checked_directory(os.path.dirname(os.path.abspath(path)))}"


def checked_directory(directory: str) -> str:
    """Returns the absolute path of a directory that metadata can name.

    Raises:
        InvalidArgumentError: the path has a character that URIs cannot contain.
    """
    path = os.path.abspath(directory)
    wrong = next((c for c in path if c in "#?%" or not c.isprintable()), None)
    if wrong is not None:
        raise InvalidArgumentError(
            f"connect {directory!r}: the path has {wrong!r}, which URIs in Iceberg's metadata "
            "cannot contain; choose another directory"
        )
    if os.path.exists(path) and not os.path.isdir(path):
        raise InvalidArgumentError(f"connect {directory!r}: not a directory")
    return path


class Catalog:
    """Opens, creates and drops tables by name. Made by :func:`nimblepy.connect`.

    Thread-safe, and can be pickled.

    Attributes:
        iceberg: the pyiceberg catalog.
        timeout: limit of one read call of a store, in seconds.
    """

    timeout: float | None = None

    def __init__(
        self,
        opened: Callable[[], Any],
        target: str | None,
        properties: Mapping[str, str],
        *,
        pointers: str | None = None,
    ) -> None:
        """``pointers``: the root of a lake without a database."""
        self._opened = opened
        self._pointers = pointers
        self._target = target
        self._properties = dict(properties)

    @cached_property
    def iceberg(self) -> Any:
        return self._opened()

    def create_table(
        self,
        name: str,
        schema_or_data: pa.Schema | Tabular,
        *,
        primary_key: str | Sequence[str] | None = None,
        cluster_by: ClusterBy = None,
        partition_by: str | Sequence[str] = (),
        layout: Layout | None = None,
        indexes: Sequence[HashIndex | SortedIndex | VectorIndex] = (),
        data_format: DataFormat = "nimble",
        options: WriteOptions | None = None,
        properties: Mapping[str, str] | None = None,
        comment: str | None = None,
        format_version: int = 2,
        if_exists: Literal["error", "ignore"] = "error",
    ) -> Table:
        """Creates a table, and its namespace if needed, in one commit.

        The data files are written first, so other programs see either no table or all of its rows.
        After an error there is no table.

        Args:
            name: ``"namespace.name"``.
            schema_or_data: a :class:`pyarrow.Schema`, or tabular data with the first rows. Field
                metadata may document a column under the key ``doc``.
            primary_key: columns whose values together are unique.
            cluster_by: the order of rows in each file; the default is the primary key.
            partition_by: transforms of columns, such as ``"day(ts)"``, ``"bucket(16, user_id)"``,
                ``"truncate(4, zip)"`` or ``"region"``. Rows with different results are stored in
                different files. Filters use the columns, not the transforms.
            layout: decides which rows share a file, instead of ``partition_by``:
                :class:`nimblepy.Sorted`, :class:`nimblepy.ZOrder` or :class:`nimblepy.OTree`.
            indexes: secondary indexes of every file. With Parquet files, they cover the rows of
                ``schema_or_data``; ``add_index`` or ``optimize`` covers later files.
            data_format: ``"nimble"``, which only nimblepy reads, or ``"parquet"``, which every
                Iceberg engine reads. A lookup in a Parquet file reads all of its keys.
            options: write options of nimble files.
            properties: stored with the table. Iceberg's own properties take effect.
            comment: stored as the property ``comment``.
            format_version: the version of Iceberg's format, 2 or 3. Version 3 stores deleted rows
                in deletion vectors, and gives each row an id.
            if_exists: ``"ignore"`` returns an existing table unchanged.

        Raises:
            InvalidArgumentError: the table exists; its name is invalid; or a type, key or transform
                is not supported.
            DuplicateKeyError: a primary key occurs twice in the data.
            ConflictError: a catalog server did not say whether it created the table.
        """
        from nimblepy.file.write import index_specs
        from nimblepy.input.tabular import as_reader
        from nimblepy.table.base.transforms import parse_partition
        from nimblepy.table.upkeep.index_parquet import stored_index
        from nimblepy.table.writing.settings import (
            check_lineage_names,
            checked_version,
            index_property,
            settings,
        )

        version = checked_version(format_version, "create_table")
        parts = parse_name(name)
        if if_exists not in ("error", "ignore"):
            raise InvalidArgumentError(
                f"if_exists: expected 'error' or 'ignore', got {if_exists!r}"
            )
        data = None if isinstance(schema_or_data, pa.Schema) else as_reader(schema_or_data)
        given = schema_or_data if data is None else data[0].schema
        schema = table_schema(given, nanoseconds=version >= ice.ROW_ID_VERSION)
        if version >= ice.ROW_ID_VERSION:
            check_lineage_names(schema, "create_table")
        primary = texts_of(primary_key, "primary_key")
        _check_primary(schema, primary)
        schema = pa.schema([f.with_nullable(f.nullable and f.name not in primary) for f in schema])
        keys = as_sort_keys(cluster_by) or tuple(SortKey(column) for column in primary)
        check_keys(schema, keys, "cluster_by")
        texts = texts_of(partition_by, "partition_by")
        fields = [parse_partition(text, schema) for text in texts]
        if len({field[2] for field in fields}) != len(fields):
            raise InvalidArgumentError(
                f"partition_by: a field occurs twice in {texts}; give each field once"
            )
        if layout is not None:
            check_layout(layout, schema, partitioned=bool(fields))
        kept = settings(data_format, options, properties)
        if comment is not None:
            kept[COMMENT] = text_of(comment, "comment")
        # Checks the columns of indexes before anything is created. This schema has no field ids
        # yet, but it has vectors of a fixed length.
        index_specs(schema, indexes)
        ids = _with_ids(schema, primary)
        index_property(ids, indexes)
        if data_format == "parquet":
            for index in indexes if isinstance(indexes, Sequence) else [indexes]:
                stored_index(ids, index)
        try:
            return self._make(
                parts, schema, primary, keys, fields, kept, indexes, layout, data, version
            )
        except ice.TableExists:
            if if_exists == "ignore":
                return self.table(name)
            raise InvalidArgumentError(
                f"table {name!r} already exists; if_exists='ignore' returns it"
            ) from None

    def _make(
        self,
        parts: tuple[str, ...],
        schema: pa.Schema,
        primary: Sequence[str],
        keys: Sequence[SortKey],
        fields: Sequence[tuple[str, str, str]],
        properties: dict[str, str],
        indexes: Sequence[HashIndex | SortedIndex | VectorIndex],
        layout: Layout | None,
        data: Any,
        version: int,
    ) -> Table:
        from nimblepy.table.writing.settings import DATA_FORMAT, index_property

        ice.create_namespace(self.iceberg, parts[:-1])
        ids = _with_ids(schema, primary)
        properties |= index_property(ids, indexes)
        if layout is not None:
            properties |= layout_property(ids, layout)
        warehouse = self.iceberg.properties.get("warehouse")
        settings = ice.NewTable(
            location=None if warehouse is None else new_location(warehouse, parts),
            primary_key=primary,
            cluster_by=keys,
            partition_by=fields,
            properties=properties,
            format_version=version,
        )
        covered = self._covered(properties[DATA_FORMAT], indexes)
        if data is None and not covered:
            table = self._handle(ice.create_table(self.iceberg, parts, schema, settings))
        else:
            rows = None if data is None else data[0]
            staged = ice.stage_table(self.iceberg, parts, schema, settings)
            if staged is None:
                table = self._make_in_steps(parts, schema, settings, rows, covered)
            else:
                table = self._handle(self._made(staged, rows, covered))
        _log.info("%s: create_table: %s", table.name, table.location)
        return table

    @staticmethod
    def _covered(
        data_format: str, indexes: Sequence[HashIndex | SortedIndex | VectorIndex]
    ) -> Sequence[HashIndex | SortedIndex | VectorIndex]:
        """Returns the indexes that are files of their own, beside Parquet files."""
        if data_format != "parquet":
            return ()
        return indexes if isinstance(indexes, Sequence) else [indexes]

    def _made(
        self,
        staged: ice.Metadata,
        rows: Any,
        covered: Sequence[HashIndex | SortedIndex | VectorIndex],
    ) -> ice.Metadata:
        """Creates a table with its first rows, in one commit."""
        from nimblepy.table.create import NewTable, create_with_rows

        if self.timeout is not None:
            limit_reads_below(staged.location, self.timeout)
        new = NewTable(staged, lambda: ice.load_table(self.iceberg, staged.name))
        return create_with_rows(new, rows, covered)

    def _make_in_steps(
        self,
        parts: tuple[str, ...],
        schema: pa.Schema,
        settings: ice.NewTable,
        rows: Any,
        covered: Sequence[HashIndex | SortedIndex | VectorIndex],
    ) -> Table:
        """Creates an empty table and then appends its first rows.

        For catalogs that can only create empty tables.
        """
        metadata = ice.create_table(self.iceberg, parts, schema, settings)
        table = self._handle(metadata)
        try:
            if rows is not None:
                table.append(rows)
            if covered:
                table.add_index(covered)
        except BaseException:
            with contextlib.suppress(Exception):  # the caller gets the first error
                self._unmake(parts, metadata)
            raise
        return table

    def _unmake(self, parts: tuple[str, ...], made: ice.Metadata) -> None:
        """Drops a table whose first rows could not be written, unless another writer changed it."""
        ice.drop_table(self.iceberg, parts, unchanged=made)
        for path in (made.metadata_file, *ice.files_beside(made)):
            remove_file(path)

    def table(self, name: str) -> Table:
        """Opens a table at its newest snapshot.

        Raises:
            InvalidArgumentError: the table does not exist; the message names the tables of its
                namespace.

        Cost: one read, of its metadata file.
        """
        return self._handle(self.load(parse_name(name)))

    def _handle(self, metadata: ice.Metadata) -> Table:
        from nimblepy.table.table import Table

        if self.timeout is not None:
            limit_reads_below(metadata.location, self.timeout)
        return Table(self, metadata)

    def load(self, parts: tuple[str, ...], newest: ice.Metadata | None = None) -> ice.Metadata:
        """Returns the newest metadata of a table, for other modules of nimblepy.

        Args:
            newest: metadata that the caller has. It is returned if it is still the newest.
        """
        try:
            return ice.load_table(self.iceberg, parts, newest)
        except ice.NoSuchTable:
            raise InvalidArgumentError(self._no_table(parts)) from None

    def _no_table(self, parts: tuple[str, ...]) -> str:
        name = ".".join(parts)
        if parts[:-1] not in ice.list_namespaces(self.iceberg):
            names = ", ".join(self.namespaces())
            if not names:
                return f"there is no table {name!r}: the catalog{self._where()} has no tables"
            space = ".".join(parts[:-1])
            return f"there is no table {name!r}: no namespace {space!r}, but {names}"
        names = ", ".join(self.tables(".".join(parts[:-1]))) or "none"
        return f"there is no table {name!r}; its namespace has {names}"

    def _where(self) -> str:
        return "" if self._target is None else f" {self._target}"

    def tables(self, namespace: str | None = None) -> list[str]:
        """Returns the names of the tables of a namespace, or of all, as ``"namespace.name"``."""
        if namespace is not None:
            for part in text_of(namespace, "tables: namespace").split("."):
                check_part(part, namespace)
            spaces = [tuple(namespace.split("."))]
        else:
            spaces = ice.list_namespaces(self.iceberg)
        return [".".join(n) for space in spaces for n in ice.list_tables(self.iceberg, space)]

    def namespaces(self) -> list[str]:
        """Returns all namespaces, nested ones with dots."""
        return [".".join(space) for space in ice.list_namespaces(self.iceberg)]

    def check(self, deep: bool = False) -> dict[str, Checks]:
        """Checks the claims about all tables, by name; see :meth:`nimblepy.Table.check`.

        Tables whose metadata cannot be read are left out, and the log has a warning.
        """
        from nimblepy.table.lake import check_lake

        return check_lake(self, deep=deep)

    def find(self, query: str, limit: int = 5) -> pa.Table:
        """Finds tables by words in their names, columns and claims.

        Columns ``table``, ``score`` and ``why``, best first. Deprecated tables and those with
        contradicted claims rank lower. Tables whose metadata cannot be read are left out.

        Cost: reads and checks the claims of all tables.
        """
        from nimblepy.table.lake import find_tables

        return find_tables(self, text_of(query, "find"), limit)

    def join_path(self, left: str, right: str) -> JoinPath | None:
        """Returns how to join two tables by the references that their claims name.

        Each step is measured on the newest snapshots. Steps without orphans are preferred.

        Returns:
            The shortest path; ``None`` if no path exists.

        Raises:
            InvalidArgumentError: a table does not exist.
        """
        from nimblepy.table.lake import join_path

        self.load(parse_name(left))
        self.load(parse_name(right))
        return join_path(self, left, right)

    def describe(self) -> pa.Table:
        """Returns a row for each table, which summarizes its claims and their checks.

        The columns are ``table``, ``description``, ``rows``, ``columns``, ``last_changed``,
        ``primary_key``, ``deprecated_by``, the number of ``claims``, and the numbers of claims by
        status.
        """
        from nimblepy.table.lake import describe_lake

        return describe_lake(self)

    def drop_table(self, name: str, purge: bool = False) -> None:
        """Drops a table.

        Args:
            purge: also removes all files that any of its snapshots references.

        Raises:
            InvalidArgumentError: the table does not exist; or with ``purge``, other tables may use
                the same files, because the catalog has the table under another name or is a copy.
            OSError: the table was dropped, but some of its files could not be removed.
        """
        from nimblepy.table.base.file_names import PUBLISHES_DELTA
        from nimblepy.table.delta.log import DeltaLog
        from nimblepy.table.reading.parquet_index import superseded_paths
        from nimblepy.table.reading.reachable import reachable_files
        from nimblepy.table.upkeep.maintain import remove_files

        parts = parse_name(name)
        paths: Iterable[pa.Array] = []
        if purge:
            metadata = self.load(parts)
            ice.check_may_remove(metadata)
            unused = pa.array(superseded_paths(metadata), pa.string())
            log = (
                DeltaLog(metadata.location).paths()
                if PUBLISHES_DELTA in metadata.properties
                else []
            )
            paths = (*reachable_files(metadata), unused, pa.array(log, pa.string()))
        files = pa.chunked_array(paths, pa.string())
        try:
            ice.drop_table(self.iceberg, parts)
        except ice.NoSuchTable:
            raise InvalidArgumentError(self._no_table(parts)) from None
        _log.info("%s: drop_table", name)
        names = files.unique().to_pylist()
        errors = remove_files(ice.removable(metadata, names) if purge else [])
        if errors:
            raise OSError(
                f"{name} was dropped, but {len(errors)} of its files could not be removed: "
                f"{errors[0]}"
            ) from errors[0]

    def drop_namespace(self, namespace: str) -> None:
        """Drops a namespace without tables."""
        parts = tuple(text_of(namespace, "drop_namespace").split("."))
        ice.drop_namespace(self.iceberg, parts)

    def rename_table(self, old: str, new: str) -> Table:
        """Renames a table. Its files are not moved.

        Raises:
            InvalidArgumentError: the table does not exist, the new name exists, or the catalog is
                in files or in a bucket.
        """
        ice.check_may_rename(self.iceberg)
        before, after = parse_name(old), parse_name(new)
        self.load(before)
        ice.create_namespace(self.iceberg, after[:-1])
        try:
            ice.rename_table(self.iceberg, before, after)
        except ice.NoSuchTable:
            raise InvalidArgumentError(self._no_table(before)) from None
        except ice.TableExists:
            raise InvalidArgumentError(
                f"rename_table: table {new!r} already exists; choose another name"
            ) from None
        _log.info("%s: rename_table to %s", old, new)
        return self.table(new)

    def relocate(self, name: str | None = None, *, old_root: str | None = None) -> list[str]:
        """Rewrites metadata after the lake was moved, so that other engines can read it.

        nimblepy itself does not need this to read a moved or copied lake. Other engines do, because
        their metadata has absolute paths. Each table is changed in one commit. Its old metadata
        becomes orphans, which ``remove_orphans`` removes.

        Args:
            name: only this table; ``None``: all tables.
            old_root: the former location of the lake, if its catalog does not record it. Other
                engines may have written tables with paths that were never the lake's root.

        Returns:
            The names of the tables that were changed.

        Raises:
            InvalidArgumentError: the table does not exist, or the catalog is not one of nimblepy's.
            UnsupportedVersionError: a table has another version of Iceberg's format than 2.

        Cost: reads and writes the manifests and delete files of all snapshots.
        """
        from nimblepy.table.upkeep.relocate import relocate

        if old_root is not None:
            old = text_of(old_root, "relocate: old_root")
            ice.register_old_root(self.iceberg, old if is_uri(old) else os.path.abspath(old))
        changed = []
        for item in self.tables() if name is None else [name]:
            if relocate(self.load(parse_name(item))) is not None:
                changed.append(item)
        return changed

    def register(self, name: str, metadata_file: str | os.PathLike[str]) -> Table:
        """Registers an existing Iceberg table by its metadata file, without copying anything.

        If another catalog still has the table, change it through only one of the two: each catalog
        removes files that its own snapshots do not reference. If this catalog already has the table
        under another name, no files are removed through either name until one of them is dropped.

        Raises:
            InvalidArgumentError: the name is taken, or the file does not exist.
            CorruptFileError: the file is not metadata of a table.
        """
        parts = parse_name(name)
        text = os.fspath(metadata_file)
        if not is_uri(text):
            if not os.path.isfile(text):
                raise InvalidArgumentError(f"register: metadata file {text!r} does not exist")
            text = f"file://{os.path.abspath(text)}"
        ice.create_namespace(self.iceberg, parts[:-1])
        try:
            metadata = ice.register_table(self.iceberg, parts, text)
        except ice.TableExists:
            raise InvalidArgumentError(
                f"register: table {name!r} already exists; choose another name"
            ) from None
        with contextlib.suppress(OSError):  # its files are no longer those of a killed creation
            forget_creation(metadata.location)
        _log.info("%s: register: %s", name, text)
        return self._handle(metadata)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._target is None:
            raise TypeError("a Catalog over a pyiceberg object cannot be pickled: connect by URI")
        if self._pointers is not None:
            return _open_pointers_again, (self._pointers, self._target, self.timeout)
        return _connect_again, (self._target, self._properties, self.timeout)

    def __repr__(self) -> str:
        return f"<nimblepy.Catalog {self._target or self.iceberg!r}>"


def _connect_again(target: str, properties: dict[str, str], timeout: float | None) -> Catalog:
    return connect(target, properties=properties, timeout=timeout)


def _open_pointers_again(root: str, target: str, timeout: float | None) -> Catalog:
    if timeout is not None:
        limit_reads_below(root, timeout)
    catalog = _of_pointers(root, target, True, test=False)
    catalog.timeout = timeout
    return catalog


def _with_ids(schema: pa.Schema, primary: Sequence[str]) -> pa.Schema:
    """Returns the columns with the field ids of a new table."""
    try:
        return ice.to_arrow(ice.fresh(ice.to_iceberg(schema, primary)))
    except InvalidArgumentError:
        raise
    except ValueError as error:
        raise InvalidArgumentError(
            f"columns: two columns have the same dotted name in Iceberg; rename one: {error}"
        ) from error


def _check_primary(schema: pa.Schema, names: Sequence[str]) -> None:
    for name in names:
        at = schema.get_field_index(name) if isinstance(name, str) else -1
        if at < 0:
            raise InvalidArgumentError(
                f"primary_key: no column {name!r}; the columns are {', '.join(schema.names)}"
            )
        kind = schema.field(at).type
        if pa.types.is_nested(kind) or pa.types.is_floating(kind):
            raise InvalidArgumentError(
                f"primary_key: column {name!r} is {kind}, which cannot be a key"
            )
    if len(set(names)) != len(names):
        raise InvalidArgumentError(
            f"primary_key: a column occurs twice in {list(names)}; give each column once"
        )
