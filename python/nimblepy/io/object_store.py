"""Reads and writes objects of S3, Google Cloud Storage, Azure and web servers, through obstore.

Each read request names the version that was opened (``If-Match``). If an object is replaced while
it is open, reads fail instead of returning a mixture of versions.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import queue
import re
import threading
from collections.abc import Hashable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from nimblepy.errors import StaleFileError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss", "adl", "http", "https")
_CLIENT = {"connect_timeout": "5s", "timeout": "60s"}
_QUEUED = 8  # maximum pieces of 1 MiB in the upload queue


def available() -> bool:
    return importlib.util.find_spec("obstore") is not None


def serves(uri: str) -> bool:
    """Returns whether obstore handles this URI. URIs with a query have pyarrow's syntax."""
    parts = urlsplit(uri)
    return parts.scheme in SCHEMES and not parts.query and available()


def is_store(filesystem: Any) -> bool:
    return type(filesystem).__module__.partition(".")[0] == "obstore"


def locate(uri: str) -> tuple[Any, str]:
    """Splits a URI into (store, path in the store)."""
    parts = urlsplit(uri)
    root = f"{parts.scheme}://{parts.netloc}"
    # `#` ends the path only in http URIs; in the others it is part of the name.
    path = parts.path if parts.scheme in ("http", "https") else uri[len(root) :]
    return _store(root, os.getpid()), path.lstrip("/")


def names(store: ObjectStore, folder: str) -> list[str]:
    """Returns the names of the objects and folders directly in ``folder``, sorted."""
    listing = _listing(store, folder)
    paths = [*(item["path"] for item in listing["objects"]), *listing["common_prefixes"]]
    return sorted(path.rstrip("/").rpartition("/")[2] for path in paths)


def versions(store: ObjectStore, folder: str) -> list[tuple[str, Hashable]]:
    """Returns (name, version) of the objects directly in ``folder``."""
    objects = _listing(store, folder)["objects"]
    return [(item["path"].rpartition("/")[2], _version(item)) for item in objects]


def version(store: ObjectStore, path: str) -> Hashable:
    """Returns the version of an object."""
    import obstore

    try:
        return _version(obstore.head(store, path))
    except Exception as error:
        raise translate_error(error, store, path) from error


def _listing(store: ObjectStore, folder: str) -> Any:
    import obstore

    try:
        return obstore.list_with_delimiter(store, folder or None)
    except Exception as error:
        raise translate_error(error, store, folder) from error


def files(store: ObjectStore, folder: str) -> list[tuple[str, int, float]]:
    """Returns (relative path, bytes, time of last change) of all objects below ``folder``.

    Times are in seconds since 1970. Cost: one request per 1000 objects.
    """
    import obstore

    root = folder.rstrip("/") + "/"
    try:
        return [
            (item["path"].removeprefix(root), item["size"], item["last_modified"].timestamp())
            for page in obstore.list(store, root)
            for item in page
        ]
    except Exception as error:
        raise translate_error(error, store, folder) from error


def is_prefix(store: ObjectStore, folder: str) -> bool:
    """Returns whether there are objects below ``folder``. Cost: one request."""
    import obstore

    try:
        return bool(next(obstore.list(store, folder or None, chunk_size=1), []))
    except Exception as error:
        raise translate_error(error, store, folder) from error


def read(store: ObjectStore, path: str) -> bytes:
    """Returns all bytes of an object. Cost: one request."""
    import obstore

    try:
        return bytes(obstore.get(store, path).bytes())
    except Exception as error:
        raise translate_error(error, store, path) from error


def write(store: ObjectStore, path: str, data: bytes) -> None:
    """Writes an object, replacing an existing one. Cost: one request."""
    import obstore

    try:
        obstore.put(store, path, data, use_multipart=False)
    except Exception as error:
        raise translate_error(error, store, path) from error


def remove(store: ObjectStore, path: str) -> None:
    """Removes an object. Cost: one request.

    Raises:
        FileNotFoundError: the object does not exist. Some stores, such as S3, do not report this.
    """
    try:
        store.delete(path)
    except Exception as error:
        raise translate_error(error, store, path) from error


def move(store: ObjectStore, path: str, target: str) -> None:
    """Copies an object within the store, and then removes it. Cost: two requests."""
    import obstore

    try:
        obstore.rename(store, path, target)
    except Exception as error:
        raise translate_error(error, store, path) from error


@functools.lru_cache(maxsize=64)
def _store(root: str, process: int) -> Any:
    """Returns the store for a root URI, with its connections. Cached per process.

    Credentials and region are read from the environment.
    """
    from obstore import store

    retries = {
        "max_retries": 4,
        "retry_timeout": timedelta(seconds=30),
        "backoff": {
            "init_backoff": timedelta(milliseconds=50),
            "max_backoff": timedelta(seconds=2),
            "base": 2,
        },
    }
    options: dict[str, Any] = dict(_CLIENT)
    plain = os.environ.get("AWS_ENDPOINT_URL", os.environ.get("AWS_ENDPOINT", ""))
    if root.startswith("http://") or (root.startswith("s3") and plain.startswith("http://")):
        options["allow_http"] = True
    make: Any = store.from_url  # the overloads need a literal scheme
    return make(root, client_options=options, retry_config=retries)


def without_retries(store: Any, timeout: float) -> Any:
    """Returns a copy of the store that tries each request once, for at most ``timeout`` seconds."""
    given = store.client_options or {}
    try:
        return type(store)(
            config=store.config,
            prefix=store.prefix,
            client_options={**given, "timeout": f"{max(1, round(1000 * timeout))}ms"},
            retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=timeout)},
            credential_provider=store.credential_provider,
        )
    except (AttributeError, TypeError):  # a web or in-memory store, which has no such settings
        return store


_REPLACED = "replaced since it was opened; open it again"
# For each class of store: the URI scheme, and the name of the root in its configuration.
_ROOTS = {
    "S3Store": ("s3", "bucket"),
    "GCSStore": ("gs", "bucket"),
    "AzureStore": ("az", "container_name"),
}


def uri_of(store: Any, path: str) -> str:
    """Returns the URI of an object for messages; its path if the store does not know the URI."""
    scheme, key = _ROOTS.get(type(store).__name__, ("", ""))
    try:
        root = store.config[key] if scheme else None
        inner = "/".join(part for part in (str(store.prefix or ""), path) if part)
    except (AttributeError, KeyError, TypeError):
        return path
    return path if root is None else f"{scheme}://{root}/{inner}"


def translate_error(error: Exception, store: Any, path: str) -> Exception:
    """Converts an error of obstore to a standard exception with the URI of the object."""
    from obstore import exceptions

    name, text = uri_of(store, path), str(error)
    if "NoSuchBucket" in text:
        return FileNotFoundError(f"{name}: there is no such bucket")
    reason = _without_xml(text.split("\n")[0])[:300]
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(f"{name}: no such object ({reason})")
    if isinstance(error, (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)):
        return PermissionError(f"{name}: the store refuses access ({reason})")
    if isinstance(error, exceptions.PreconditionError):
        return StaleFileError(f"{name}: {_REPLACED}")
    return OSError(f"{name}: {reason}")


def _without_xml(text: str) -> str:
    """Replaces the XML in a store's answer by the message that it contains."""
    head, mark, xml = text.partition("<?xml")
    message = re.search(r"<Message>(.*?)</Message>", xml, re.DOTALL)
    return head + (message[1] if message else "") if mark else text


class StoredObject:
    """A :class:`nimblepy.io.remote_file.RangeSource` over an obstore store."""

    def __init__(self, store: Any, path: str) -> None:
        self._store = store
        self._path = path
        self._version: tuple[Any, ...] = ()
        self._etag: str | None = None

    @property
    def name(self) -> str:
        return self._path

    def tail(self, size: int) -> tuple[int, bytes]:
        try:
            answer = self._tail(size)
            meta, data = answer.meta, bytes(answer.bytes())
        except Exception as error:
            raise translate_error(error, self._store, self._path) from error
        self._etag = meta["e_tag"]
        self._version = _version(meta)
        return meta["size"], data

    def _tail(self, size: int) -> Any:
        import obstore
        from obstore import exceptions

        try:
            return obstore.get(self._store, self._path, options={"range": {"suffix": size}})
        except (exceptions.GenericError, exceptions.NotSupportedError) as error:
            # the object is empty, or the store does not support suffix ranges
            length = obstore.head(self._store, self._path)["size"]
            if length == 0:
                return obstore.get(self._store, self._path)
            if not isinstance(error, exceptions.NotSupportedError):
                raise
            begin = max(0, length - size)
            return obstore.get(self._store, self._path, options={"range": (begin, length)})

    def read(self, offset: int, size: int) -> Any:
        import obstore

        options: Any = {"range": (offset, offset + size)}
        if self._etag is not None:
            options["if_match"] = self._etag
        try:
            answer = obstore.get(self._store, self._path, options=options)
            version = _version(answer.meta)
            data = memoryview(answer.bytes())
        except Exception as error:
            raise translate_error(error, self._store, self._path) from error
        if version != self._version:
            raise StaleFileError(f"{uri_of(self._store, self._path)}: {_REPLACED}")
        return data


def _version(meta: Any) -> tuple[Any, ...]:
    return (meta["size"], meta["e_tag"], meta["last_modified"])


class ObjectSink:
    """Writes an object by multipart upload. It becomes visible on :meth:`commit`."""

    def __init__(self, store: Any, path: str) -> None:
        self._store = store
        self._path = path
        self._pieces: queue.Queue[bytes | None] = queue.Queue(_QUEUED)
        self._aborted = self._ended = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._upload, name="nimblepy-upload", daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        self._raise()
        self._pieces.put(data)

    def commit(self) -> None:
        self._pieces.put(None)
        self._thread.join()
        self._raise()

    def abort(self) -> None:
        self._aborted = True
        self._pieces.put(None)
        self._thread.join()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _upload(self) -> None:
        import obstore

        try:
            obstore.put(self._store, self._path, self._taken(), use_multipart=True)
        except Exception as error:
            if not self._aborted:
                self._error = translate_error(error, self._store, self._path)
            # drain the queue, so that a blocked writer continues and sees the error
            while not self._ended and self._pieces.get() is not None:
                pass

    def _taken(self) -> Iterator[bytes]:
        while (piece := self._pieces.get()) is not None:
            yield piece
        self._ended = True
        if self._aborted:
            raise InterruptedError("the write was aborted before the file was finished")
