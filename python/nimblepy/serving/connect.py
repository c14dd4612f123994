"""``nb.connect``: a catalog of tables, or the tables of a server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, overload

from nimblepy.errors import InvalidArgumentError
from nimblepy.io.time_limit import checked_timeout
from nimblepy.table.catalog import Catalog
from nimblepy.table.catalog import connect as connect_catalog

if TYPE_CHECKING:
    from nimblepy.serving.remote import RemoteLake

_SERVERS = ("nimble://", "nimble+unix://")


@overload
def connect(
    target: str | os.PathLike[str] | None = None,
    *,
    catalog: Any = None,
    name: str | None = None,
    properties: Mapping[str, str] | None = None,
    create: bool = True,
    timeout: float | None = None,
) -> Catalog: ...


@overload
def connect(target: str, *, token: str | None, timeout: float | None = None) -> RemoteLake: ...


def connect(
    target: str | os.PathLike[str] | None = None,
    *,
    catalog: Any = None,
    name: str | None = None,
    properties: Mapping[str, str] | None = None,
    create: bool = True,
    timeout: float | None = None,
    token: str | None = None,
) -> Any:
    """Opens a catalog of tables, or connects to a server (``nimble://HOST:PORT``).

    Args:
        target: a directory. The catalog is a SQLite database in it, and the tables are below it.
            The first write makes both. Or a location in a bucket, such as ``s3://bucket/lake``
            (``gs://``, ``az://``, ``abfs://``): the catalog is a small object per table, which a
            commit swaps by a conditional put. No database is needed. Or the URI of a catalog that
            pyiceberg supports: ``sqlite:///path``, ``rest:https://...``, ``thrift://...``. Or the
            address of a server, ``nimble://HOST:PORT`` or ``nimble+unix:///PATH``: the result is a
            :class:`nimblepy.RemoteLake`, whose tables are read-only.
        catalog: a pyiceberg catalog, instead of ``target``. Or ``"files"``: the directory gets the
            kind of catalog that buckets have, instead of a database. An existing catalog of this
            kind is detected.
        name: name of the catalog. A SQL database may have several catalogs with different tables:
            ``SqlCatalog("prod", ...)`` of pyiceberg creates the catalog ``"prod"``. The default is
            the catalog that nimblepy created, or the only one in the database.
        properties: passed to pyiceberg: ``warehouse``, credentials, ...
        create: ``False`` raises if the directory, bucket or SQLite database has no catalog.
        timeout: time limit of one read call to a store, in seconds, including retries. It applies
            to all files below the lake and below tables that are opened with it, in the whole
            process. If a location gets several limits, the last one applies. For a server: the time
            limit of one command.
        token: the token for a server that requires one. Type checkers cannot tell the address of a
            server from other strings. With ``token=None``, they infer a server.

    Raises:
        TimeoutError: a store did not answer within ``timeout``; later reads raise it too.
        InvalidArgumentError: not exactly one of ``target`` and a pyiceberg ``catalog`` is given;
            the target is neither a directory nor a URI; the database has several catalogs and
            ``name`` is missing; there is no catalog and ``create`` is false; the bucket's store has
            no conditional put, or ignores the condition; the target is a server and an option of a
            catalog is given, or it is not a server and ``token`` is given.
        MissingExtraError: pyiceberg is not installed (``nimblepy[table]``).

    Cost: reads no table. For a directory or ``sqlite:``, the first table loads pyiceberg. Testing a
        bucket takes three requests, or six if it has no catalog yet. The first table connects to a
        server.
    """
    if isinstance(target, str) and target.startswith(_SERVERS):
        from nimblepy.serving.remote import RemoteLake  # a catalog does not need it

        if catalog is not None or name is not None or properties or create is not True:
            raise InvalidArgumentError(
                f"connect: {target} is a server, which takes token and timeout only"
            )
        return RemoteLake(target, token, checked_timeout(timeout))
    if token is not None:
        raise InvalidArgumentError("connect: token is for a server, nimble://HOST:PORT")
    return connect_catalog(
        target, catalog=catalog, name=name, properties=properties, create=create, timeout=timeout
    )
