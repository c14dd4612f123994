"""Expires snapshots, removes orphan files, and lists all files of a table."""

from __future__ import annotations

import datetime
import errno
import json
import os
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.io.location import is_uri, locate
from nimblepy.io.log import logger
from nimblepy.rows.arguments import at_least
from nimblepy.table import iceberg as ice
from nimblepy.table.base.creations import (
    FOLDER,
    forget_creation,
    owner_in,
    remove_empty_folders,
)
from nimblepy.table.base.damage import BAD_BYTES
from nimblepy.table.base.file_names import DELTA_LOG
from nimblepy.table.base.model import EXPIRE_ON_COMMIT, MAX_AGE, MIN_SNAPSHOTS, Reference, Snapshot
from nimblepy.table.base.moved import translation_of
from nimblepy.table.base.places import exist, readable_path, remove_file
from nimblepy.table.reading.parquet_index import KEYS
from nimblepy.table.reading.reachable import reachable_by_kind, reachable_files, unreachable
from nimblepy.table.writing.commit import swapped
from nimblepy.table.writing.settings import number_property

_log = logger(__name__)

Age = datetime.timedelta | datetime.datetime

_DEFAULT_AGE = datetime.timedelta(days=5)
# Number of snapshots that commits keep, and the number in excess of it at which commits expire
# snapshots.
KEPT_SNAPSHOTS = 100
_AT_ONCE = 20
# Snapshots below this age are kept for running readers, up to this number of snapshots.
YOUNG = datetime.timedelta(hours=1)
_MOST_SNAPSHOTS = 500
# Files removed at the same time, attempts per file, and the first delay in seconds.
_REMOVED_AT_ONCE = 16
_TRIES = 3
# Beginning of the names of expiry lists, which list the files that an expiry removes.
_LIST = "expire-"
# How long the files of an expiry list are retried.
_GIVEN_UP = datetime.timedelta(days=7)
# Number of orphans that are removed between two reads of the newest metadata.
_ASKED_AT_ONCE = 256
_WAIT = 0.1
# Number of metadata files of the log to keep when others are removed to free disk space.
_KEPT_METADATA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """The result of an expiry or of a removal of orphans.

    Attributes:
        snapshots: ids of the removed snapshots.
        files: paths of the removed files.
        bytes: bytes of the removed files.
    """

    snapshots: tuple[int, ...] = ()
    files: tuple[str, ...] = ()
    bytes: int = 0

    def __repr__(self) -> str:
        counts = f"{len(self.snapshots)} snapshots, {len(self.files)} files, {self.bytes:,} bytes"
        return f"<nimblepy.Removal of {counts}>"


def instant_ms(age: Age, what: str) -> int:
    """Converts an age or an aware datetime to milliseconds since 1970."""
    if isinstance(age, datetime.timedelta):
        if age < datetime.timedelta(0):
            raise InvalidArgumentError(f"{what}: the age must not be negative, got {age}")
        return int((time.time() - age.total_seconds()) * 1000)
    if isinstance(age, datetime.datetime):
        if age.tzinfo is None:
            raise InvalidArgumentError(
                f"{what}: {age} has no time zone; add one, as in datetime(..., tzinfo=UTC)"
            )
        return int(age.timestamp() * 1000)
    raise InvalidArgumentError(
        f"{what}: expected a datetime with a zone, or a timedelta for an age, such as "
        f"timedelta(hours=2), got {age!r}"
    )


def expire(
    metadata: ice.Metadata,
    reload: Callable[[], ice.Metadata],
    keep: int | None,
    older_than: Age | None,
    *,
    dry_run: bool = False,
) -> Removal:
    """Removes snapshots, and the files that only they reference.

    First writes an expiry list of these files, so that a later call can continue an interrupted
    one. On a full disk it writes no list; then :func:`remove_orphans` finds the remaining files.

    Raises:
        OSError: files cannot be removed. See also :func:`swapped`.
    """
    if dry_run:
        old = _expired(metadata, keep, older_than)
        return _described(unreachable(metadata, old) if old else (), old)
    ice.check_may_remove(metadata)
    name = ".".join(metadata.name)
    expired: list[int] = []
    own = ""
    listed: list[str] | None = None

    def attempt(newest: ice.Metadata) -> ice.Metadata:
        nonlocal expired, own, listed
        before, expired = expired, _expired(newest, keep, older_than)
        if not expired:
            return newest
        files = ice.removable(newest, unreachable(newest, expired))
        if not own or expired != before:
            own = _write_list_if_room(newest, expired, files)
        try:
            after = _with_room(newest, lambda: ice.remove_snapshots(newest, expired))
        except ice.SwapLost as error:
            if error.certain and own:
                remove_file(own)
                own = ""
            raise
        listed = files
        return after

    def is_made(newest: ice.Metadata) -> bool:
        return bool(expired) and all(newest.snapshot(number) is None for number in expired)

    after = swapped(metadata, reload, attempt, is_made, operation="expire")
    done = Removal(snapshots=tuple(expired))
    errors: list[OSError] = []
    if listed is not None:
        # Later commits may reference other old files, but not these.
        done, errors = _removed(listed, expired, name)
        if own and not errors:
            remove_file(own)
    # If another process removed the snapshots, its list is handled like any other list.
    left, more = _removed_of_lists(after, "" if listed is None else own)
    _raise_first([*errors, *more])
    return Removal(
        snapshots=done.snapshots,
        files=(*left.files, *done.files),
        bytes=left.bytes + done.bytes,
    )


def _write_list(metadata: ice.Metadata, expired: Sequence[int], files: Sequence[str]) -> str:
    """Writes an expiry list and returns its path."""
    path = f"{metadata.location}/metadata/{_LIST}{uuid.uuid4()}.json"
    content = {"table": metadata.uuid, "snapshots": list(expired), "files": list(files)}
    with metadata.ice.io.new_output(path).create() as sink:
        sink.write(json.dumps(content).encode())
    return path


def _write_list_if_room(
    metadata: ice.Metadata, expired: Sequence[int], files: Sequence[str]
) -> str:
    """Writes an expiry list; returns an empty text if the disk is full."""
    try:
        return _write_list(metadata, expired, files)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _log.warning(
            "%s: disk is full; files are removed without an expiry list: %s",
            ".".join(metadata.name),
            error,
        )
        return ""


def _with_room(metadata: ice.Metadata, swap: Callable[[], ice.Metadata]) -> ice.Metadata:
    """Calls ``swap``, which writes a metadata file.

    On a full disk, first removes the oldest metadata files of the log. No snapshot needs them.
    """
    try:
        return swap()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        old = [path for path in metadata.metadata_files()[1:-_KEPT_METADATA] if exist([path])[0]]
        if not old:
            raise
        _log.warning(
            "%s: disk is full; old metadata files are removed: %s", ".".join(metadata.name), error
        )
        remove_files(old)
        return swap()


def _read_list(metadata: ice.Metadata, path: str) -> tuple[set[int], list[str]]:
    """Reads an expiry list, and returns (snapshots, files).

    Returns only files below the table's location, because anyone who can write a list there can
    also remove files there.

    Raises:
        ValueError: the file is not an expiry list of this table.
    """
    content = json.loads(metadata.read(path))
    table, snapshots, files = (content.get(name) for name in ("table", "snapshots", "files"))
    if table != metadata.uuid or not isinstance(snapshots, list) or not isinstance(files, list):
        raise ValueError("it belongs to another table")
    if not snapshots or not all(type(number) is int for number in snapshots):
        raise ValueError("it has no list of snapshot ids")
    if not all(isinstance(name, str) for name in files):
        raise ValueError("it has file names that are not text")
    below = f"{_real(_absolute(metadata.location)).rstrip('/')}/"
    translation = translation_of(path)
    if translation is not None:
        files = list(map(translation.path, files))
    names = map(_absolute, files)
    return set(snapshots), [name for name in names if _real(name).startswith(below)]


def _removed_of_lists(metadata: ice.Metadata, own: str) -> tuple[Removal, list[OSError]]:
    """Continues interrupted expiries, and returns (removed files, errors).

    Args:
        own: the list of the calling expiry, whose files were just removed.

    Cost: lists the metadata directory. If there are lists, reads the metadata of all snapshots.
    """
    names: list[str] = []
    errors: list[OSError] = []
    size = 0
    for path, _, changed in _files_below(f"{metadata.location}/metadata"):
        name = os.path.basename(path)
        if not name.startswith(_LIST) or name == os.path.basename(own):
            continue
        age = time.time() - changed
        try:
            snapshots, files = _read_list(metadata, path)
        except FileNotFoundError:
            continue  # its writer has finished
        except BAD_BYTES as error:
            _log.warning("%s: not an expiry list: %s", path, error)
            continue
        if any(snapshot.id in snapshots for snapshot in metadata.snapshots):
            # The snapshots still exist: their expiry is about to commit, or was interrupted before.
            if age > YOUNG.total_seconds():
                remove_file(path)
            continue
        named = _Named([(name, 0, 0.0) for name in files])
        named.learn(metadata)
        unreferenced = [name for name in files if not named.has(name)]
        # In a store it is not known which files exist.
        sizes = dict(zip(unreferenced, _sizes(unreferenced), strict=True))
        sizes = {name: n for name, n in sizes.items() if n is not None or is_uri(name)}
        # Files that changed after the list was written may be part of the table again.
        outcomes = _remove_all(unreferenced, int(changed * 1000))
        removed = [
            name
            for name, done in zip(unreferenced, outcomes, strict=True)
            if done is True and name in sizes
        ]
        names += removed
        size += sum(sizes[name] or 0 for name in removed)
        failed = [item for item in outcomes if isinstance(item, OSError)]
        if failed and age < _GIVEN_UP.total_seconds():
            errors += failed
        else:
            remove_file(path)  # remaining files are orphans
    return Removal(files=tuple(names), bytes=size), errors


def _expired(metadata: ice.Metadata, keep: int | None, older_than: Age | None) -> list[int]:
    properties = metadata.properties
    least_kept = 1 if keep is None else at_least("keep", keep, 1)
    age: Age = older_than if older_than is not None else _DEFAULT_AGE
    latest = instant_ms(age, "older_than")
    if older_than is None and keep is not None:
        latest = 1 << 62
    now = int(time.time() * 1000)
    least = number_property(properties, MIN_SNAPSHOTS, 1)
    longest = number_property(properties, MAX_AGE, None)

    def limit(age_ms: int | None) -> int:
        return latest if age_ms is None else min(latest, now - age_ms)

    kept = _unpublished(metadata)
    judged: set[int] = set()  # snapshots of branches, which may have their own limits
    for name, reference in metadata.references.items():
        head = metadata.snapshot(reference.snapshot)
        if head is None or _is_over(name, reference, head, now):
            continue
        if reference.kind == "tag":
            kept.add(head.id)
            continue
        ours = least if reference.least_snapshots is None else reference.least_snapshots
        since = limit(longest if reference.snapshot_age_ms is None else reference.snapshot_age_ms)
        for i, snapshot in enumerate(metadata.ancestors(head)):
            judged.add(snapshot.id)
            if i < max(least_kept, ours) or snapshot.timestamp_ms >= since:
                kept.add(snapshot.id)
    return [
        snapshot.id
        for snapshot in metadata.snapshots
        if snapshot.id not in kept
        and (snapshot.id in judged or snapshot.timestamp_ms < limit(longest))
    ]


def _unpublished(metadata: ice.Metadata) -> set[int]:
    """Returns snapshots between ``main`` and the branches that ``main`` can be fast-forwarded to.

    Without these snapshots, nothing shows that ``main`` is an ancestor of the branch.
    """
    main = metadata.head(ice.MAIN)
    unpublished: set[int] = set()
    for name, reference in metadata.references.items():
        if main is None or name == ice.MAIN or reference.kind != "branch":
            continue
        since: list[int] = []
        for snapshot in metadata.ancestors(metadata.snapshot(reference.snapshot)):
            if snapshot.id == main.id:
                unpublished.update(since)
                break
            since.append(snapshot.id)
    return unpublished


def _is_over(name: str, reference: Reference, head: Snapshot, now: int) -> bool:
    """Returns whether a tag or branch has reached its maximum age."""
    age = reference.age_ms
    return age is not None and name != ice.MAIN and now - head.timestamp_ms > age


def expire_by_default(metadata: ice.Metadata, reload: Callable[[], ice.Metadata]) -> ice.Metadata:
    """Expires old snapshots after a commit if the table has too many, so that commits remain cheap.

    Young snapshots are kept for readers. The property ``nimblepy.expire-on-commit`` turns expiry
    off. A failure is logged and not raised, because the commit has succeeded. Files that a failed
    expiry leaves are orphans.

    Returns:
        The newest metadata; ``metadata`` itself if nothing expired.
    """
    if metadata.properties.get(EXPIRE_ON_COMMIT, "true") == "false":
        return metadata
    keep, older_than = _by_default(metadata)
    if keep is None:
        return metadata
    try:
        if expire(metadata, reload, keep, older_than).snapshots:
            newest = reload()
            if newest.head() == metadata.head():
                return newest
    except Exception as error:
        _log.warning("%s: old snapshots were not expired: %s", ".".join(metadata.name), error)
    return metadata


def _by_default(metadata: ice.Metadata) -> tuple[int | None, Age | None]:
    """Returns the arguments of :func:`expire` after a commit; (None, None) if nothing should
    expire.
    """
    if _is_time(len(metadata.snapshots) - _MOST_SNAPSHOTS):
        return _MOST_SNAPSHOTS, None
    return (KEPT_SNAPSHOTS, YOUNG) if _is_time(superfluous(metadata)) else (None, None)


def _is_time(too_many: int) -> bool:
    """Returns whether a commit that leaves ``too_many`` superfluous snapshots expires them.

    Of concurrent processes, only one commits with exactly ``_AT_ONCE``. If that process does not
    expire them, every commit tries from twice that number on.
    """
    return too_many == _AT_ONCE or too_many >= 2 * _AT_ONCE


def expired_by_advice(metadata: ice.Metadata) -> list[int]:
    """Returns the snapshots that an advised expiry would remove."""
    return _expired(metadata, KEPT_SNAPSHOTS, YOUNG)


def superfluous(metadata: ice.Metadata) -> int:
    """Returns the number of old snapshots that commits do not have to keep."""
    limit = instant_ms(YOUNG, "older_than")
    older = metadata.snapshots[:-KEPT_SNAPSHOTS]
    return sum(snapshot.timestamp_ms < limit for snapshot in older)


def _described(paths: Iterable[str], snapshots: Iterable[int] = ()) -> Removal:
    files = tuple(map(readable_path, paths))
    size = sum(number or 0 for number in _sizes(files))
    return Removal(snapshots=tuple(snapshots), files=files, bytes=size)


def _removed(
    paths: Iterable[str], snapshots: Iterable[int], table: str
) -> tuple[Removal, list[OSError]]:
    """Removes files, several at a time, and returns (removed files, errors)."""
    done = _described(paths, snapshots)
    errors = remove_files(done.files)
    _log.info(
        "%s: expire: %d snapshots, %d files, %d bytes removed",
        table,
        len(done.snapshots),
        len(done.files) - len(errors),
        done.bytes,
    )
    return done, errors


def remove_files(paths: Sequence[str]) -> list[OSError]:
    """Removes files, several at a time and with retries. Returns the errors."""
    return [item for item in _remove_all(paths, None) if isinstance(item, OSError)]


def _remove_all(paths: Sequence[str], limit_ms: int | None) -> list[bool | OSError]:
    """Removes files, several at a time. Returns for each file whether it was removed, or the error.

    Args:
        limit_ms: keeps files that changed after this time.
    """
    with ThreadPoolExecutor(_REMOVED_AT_ONCE) as pool:
        return list(pool.map(lambda path: _remove(path, limit_ms), paths))


def _raise_first(errors: Sequence[OSError]) -> None:
    if errors:
        raise OSError(
            f"{len(errors)} files could not be removed; the next call tries again: {errors[0]}"
        ) from errors[0]


def _changed_ms(path: str) -> float:
    return _facts(path).st_mtime * 1000


def _facts(path: str) -> os.stat_result:
    """Returns the status of a file, or of a symbolic link whose target cannot be reached.

    Raises:
        FileNotFoundError: neither exists.
    """
    try:
        return os.stat(path)
    except OSError:
        if not os.path.islink(path):
            raise
        return os.lstat(path)


def _remove(path: str, limit_ms: int | None) -> bool | OSError:
    for attempt in range(_TRIES):
        try:
            # Checks the time directly before the removal: the file may be part of the table by now.
            if limit_ms is not None and not is_uri(path) and _changed_ms(path) > limit_ms:
                return False
            remove_file(path)
            break
        except FileNotFoundError:
            break
        except OSError as error:
            if attempt == _TRIES - 1:
                return error
            time.sleep(_WAIT * 2**attempt)
    return True


def _sizes(paths: Sequence[str]) -> list[int | None]:
    """Returns the bytes of each file, if known. Cost: one request per file in a store."""
    if not any(map(is_uri, paths)):
        return list(map(_size, paths))
    with ThreadPoolExecutor(_REMOVED_AT_ONCE) as pool:
        return list(pool.map(_size, paths))


def _size(path: str) -> int | None:
    place = locate(readable_path(path))
    try:
        return _facts(place.path).st_size if place.is_local else place.open().size()
    except OSError:
        return None


def remove_orphans(reload: Callable[[], ice.Metadata], older_than: Age, dry_run: bool) -> Removal:
    """Removes files below the table's location that no metadata references."""
    # Use the end of the millisecond, because file times are more precise.
    limit = instant_ms(older_than, "older_than") + 1
    # Lists files before it reads the metadata, so that later commits are not in the list.
    there = _without_others(_files_below(reload().location), reload())
    named = _Named(there)
    named.learn(reload())
    sizes = {
        path: size
        for path, size, changed in there
        if changed * 1000 <= limit and not named.has(path)
    }
    killed = _killed_creations(reload(), limit)
    for _, listing in killed:
        sizes |= listing
    if dry_run:
        return Removal(files=tuple(sizes), bytes=sum(sizes.values()))
    ice.check_may_remove(reload())
    ice.retire_versions(reload())
    # A concurrent commit may add old files to the table. So each batch first reads the newest
    # metadata, and checks the time of each file: `add_files` sets it to now.
    done: list[str] = []
    errors: list[OSError] = []
    orphans = list(sizes)
    for first in range(0, len(orphans), _ASKED_AT_ONCE):
        named.learn(reload())
        some = [path for path in orphans[first : first + _ASKED_AT_ONCE] if not named.has(path)]
        outcomes = _remove_all(some, limit)
        done += [path for path, outcome in zip(some, outcomes, strict=True) if outcome is True]
        errors += [outcome for outcome in outcomes if isinstance(outcome, OSError)]
    for location, listing in killed:
        if listing.keys() <= {*done}:
            forget_creation(location)
            remove_empty_folders(location)
    _log.info("%s: remove_orphans: %d files removed", ".".join(reload().name), len(done))
    _raise_first(errors)
    return Removal(files=tuple(done), bytes=sum(sizes[path] for path in done))


def _killed_creations(metadata: ice.Metadata, limit_ms: float) -> list[tuple[str, dict[str, int]]]:
    """Returns the killed creations of tables beside a table: (directory, bytes of each file).

    Files of a creation that changed a file after the limit are left out: it may still run. If the
    table was created, only the record of its creation is left. If the metadata of a table cannot
    be read, the directory may be its own, so the record and the files are kept.
    """
    owner = ice.creator(metadata)
    beside = metadata.location.rstrip("/").rpartition("/")[0]
    killed = []
    for path, size, changed in _files_below(f"{beside}/{FOLDER}") if owner else ():
        if changed * 1000 > limit_ms or owner_in(path) != owner:
            continue
        location = f"{beside}/{os.path.basename(path)}"
        listing = []
        is_created = ice.has_table_at(metadata, location)
        if is_created is None:
            continue
        if not is_created:
            listing = _files_below(location)
            # A second metadata file shows that the table was created and changed.
            published = sum(name.endswith(".metadata.json") for name, _, _ in listing) > 1
            if published or any(time_s * 1000 > limit_ms for _, _, time_s in listing):
                continue
        killed.append((location, {name: n for name, n, _ in listing} | {path: size}))
    return killed


def _without_others(
    listing: list[tuple[str, int, float]], metadata: ice.Metadata
) -> list[tuple[str, int, float]]:
    """Excludes files of other tables and of the catalog, if they are below the location.

    The directory above a directory with metadata files is a table.
    """
    location, own = _absolute(metadata.location), os.path.dirname(_absolute(metadata.metadata_file))
    others = set()
    for folder in {os.path.dirname(p) for p, _, _ in listing if p.endswith(".metadata.json")}:
        root = os.path.dirname(folder) if os.path.basename(folder) == "metadata" else folder
        if folder != own and root.startswith(f"{location.rstrip('/')}/"):
            others.add(root)
    if others:
        _log.warning("%s: other tables are below this directory; their files are kept", location)
    database = ice.database_of(metadata)
    name = os.path.basename(database or "")

    def is_other(path: str) -> bool:
        folder = path
        while others and len(folder := os.path.dirname(folder)) > len(location):
            if folder in others:
                return True
        # SQLite keeps its journals beside the database.
        is_like_it = database is not None and os.path.basename(path).startswith(name)
        return is_like_it and _real(path).startswith(database or "")

    return [item for item in listing if not is_other(item[0])]


class _Named:
    """The files of a listing that the metadata of a table references,
    also through symbolic links.
    """

    def __init__(self, listing: Iterable[tuple[str, int, float]]) -> None:
        self._listed = {path for path, _, _ in listing}
        self._known: set[int] = set()
        self._metadata_file = ""
        self._paths: set[str] = set()
        # Targets of symbolic links among the files, and other paths of the same files.
        self._real: set[str] = {
            os.path.realpath(path) for path, _, _ in listing if os.path.islink(path)
        }

    def learn(self, metadata: ice.Metadata) -> None:
        """Adds the files that a version of the table references. Cost: reads new metadata only."""
        if metadata.metadata_file == self._metadata_file:
            return
        for locations in reachable_files(metadata, self._known):
            paths = set(map(_absolute, locations.to_pylist()))
            self._paths |= paths & self._listed
            self._real.update(map(_real, paths - self._listed))
        self._known.update(snapshot.id for snapshot in metadata.snapshots)
        self._metadata_file = metadata.metadata_file

    def has(self, path: str) -> bool:
        if _is_in_delta_log(path) or path in self._paths:
            return True
        return bool(self._real) and _real(path) in self._real


def census(reload: Callable[[], ice.Metadata]) -> pa.Table:
    """Returns every file below the location, and every file that a snapshot references."""
    there = {_key(path): (path, size) for path, size, _ in _files_below(reload().location)}
    rows: list[dict[str, object]] = []
    for kind, files in reachable_by_kind(reload()).items():
        for location, snapshots in files.items():
            path = _absolute(location)
            _, size = there.pop(_key(path), (path, None))
            rows.append(
                {
                    "path": path,
                    "bytes": _size(path) if size is None else size,
                    "kind": kind,
                    "reachable": True,
                    "snapshots": snapshots,
                }
            )
    for path, size in there.values():
        rows.append(
            {
                # For names that are not valid text, the printable part.
                "path": path.encode(errors="surrogateescape").decode(errors="backslashreplace"),
                "bytes": size,
                "kind": _kind_of(path),
                "reachable": _is_in_delta_log(path),
                "snapshots": [],
            }
        )
    return pa.Table.from_pylist(sorted(rows, key=lambda row: str(row["path"])), schema=_CENSUS)


_CENSUS = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("bytes", pa.int64()),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("reachable", pa.bool_(), nullable=False),
        pa.field("snapshots", pa.list_(pa.int64()), nullable=False),
    ]
)


def _is_in_delta_log(path: str) -> bool:
    """Returns whether a file belongs to the log that ``publish_delta`` keeps."""
    return os.path.basename(os.path.dirname(path)) == DELTA_LOG


def _kind_of(path: str) -> str:
    name = os.path.basename(path)
    if name.startswith(_LIST) and name.endswith(".json"):
        return "expiry"
    if _is_in_delta_log(path):
        return "delta log"
    if name.endswith(".metadata.json"):
        return "metadata"
    if name == "version-hint.text":
        return "version hint"
    if name.startswith("plan-"):
        return "plan index"
    if name.startswith(KEYS):
        return "key index"
    if name.endswith(".avro"):
        return "manifest list" if name.startswith("snap-") else "manifest"
    if name.endswith(".stats"):
        return "statistics"
    if name.endswith(".puffin"):
        return "cubes"
    return "deletes" if name.startswith("deletes-") else "data"


def _absolute(location: str) -> str:
    path = readable_path(location)
    return os.path.abspath(path) if locate(path).is_local else path


def _real(path: str) -> str:
    """Returns a unique form of a path or URI.

    Resolves symbolic links of local files, and treats Hadoop's schemes for S3 as equal.
    """
    if not is_uri(path):
        return os.path.realpath(path)
    scheme, _, rest = path.partition("://")
    return f"s3://{rest}" if scheme in ("s3a", "s3n") else path


def _key(path: str) -> str:
    """Returns a form of a path as :func:`_real` does, but without access to the file system."""
    return _real(path) if is_uri(path) else path


def _files_below(location: str) -> list[tuple[str, int, float]]:
    """Returns (path, bytes, seconds since 1970 of the last change) of all files of a table."""
    root = readable_path(location)
    place = locate(root)
    if not place.is_local:
        below = root.rstrip("/")
        return [(f"{below}/{name}", size, changed) for name, size, changed in place.files()]
    files = []
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(os.path.abspath(folder), name)
            try:
                facts = _facts(path)
            except FileNotFoundError:
                continue
            files.append((path, facts.st_size, facts.st_mtime))
    return files
