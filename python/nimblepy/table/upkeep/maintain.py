"""Keeping a table small: old snapshots, files that nothing names, and a census of all files."""

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
from nimblepy.table.base.damage import BAD_BYTES
from nimblepy.table.base.model import MAX_AGE, MIN_SNAPSHOTS, Reference, Snapshot
from nimblepy.table.base.places import exist, readable_path, remove_file
from nimblepy.table.upkeep.reachable import reachable_by_kind, reachable_files, unreachable
from nimblepy.table.writing.commit import swapped
from nimblepy.table.writing.settings import number_property

_log = logger(__name__)

Age = datetime.timedelta | datetime.datetime

_DEFAULT_AGE = datetime.timedelta(days=5)
# Snapshots that commits leave, and how many more there may be before they go, at once.
KEPT_SNAPSHOTS = 100
_AT_ONCE = 20
# Younger ones stay, for what is still reading them; but no more than that many.
YOUNG = datetime.timedelta(hours=1)
_MOST_SNAPSHOTS = 500
# Files that are removed at the same time, how often each is tried, and the first wait in seconds.
_REMOVED_AT_ONCE = 16
_TRIES = 3
# What files are called that say which files an expiry removes.
_LIST = "expire-"
# How long the files of such a list are tried.
_GIVEN_UP = datetime.timedelta(days=7)
# Orphans that are removed before the table is asked again whether it has got one of them.
_ASKED_AT_ONCE = 256
_WAIT = 0.1
# Metadata files of the log that stay if others are removed to make room.
_KEPT_METADATA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What was removed of a table's past, or would be.

    Attributes:
        snapshots: ids of snapshots that are forgotten.
        files: paths of files that are removed.
        bytes: of these files.
    """

    snapshots: tuple[int, ...] = ()
    files: tuple[str, ...] = ()
    bytes: int = 0


def instant_ms(age: Age, what: str) -> int:
    """The instant that an age or an aware datetime means, in milliseconds since 1970."""
    if isinstance(age, datetime.timedelta):
        if age < datetime.timedelta(0):
            raise InvalidArgumentError(f"{what}: an age below zero: {age}")
        return int((time.time() - age.total_seconds()) * 1000)
    if isinstance(age, datetime.datetime):
        if age.tzinfo is None:
            raise InvalidArgumentError(
                f"{what}: {age} has no time zone; give it one, as in datetime(..., tzinfo=UTC)"
            )
        return int(age.timestamp() * 1000)
    raise InvalidArgumentError(
        f"{what}: expected a datetime with a zone, or a timedelta for an age, got {age!r}"
    )


def expire(
    metadata: ice.Metadata,
    reload: Callable[[], ice.Metadata],
    keep: int | None,
    older_than: Age | None,
    *,
    dry_run: bool = False,
) -> Removal:
    """Forgets snapshots, and removes the files that only they name.

    Which these are is written down before the snapshots go, so that the next call can remove what
    this one did not get to. If the disk is too full for that, nothing is written down: what a call
    that is stopped leaves then is for :func:`remove_orphans`.

    Raises:
        As :func:`swapped`; OSError: files cannot be removed.
    """
    if dry_run:
        old = _expired(metadata, keep, older_than)
        return _described(unreachable(metadata, old) if old else (), old)
    ice.check_may_remove(metadata)
    name = ".".join(metadata.name)
    gone: list[int] = []
    own = ""
    listed: list[str] | None = None

    def attempt(newest: ice.Metadata) -> ice.Metadata:
        nonlocal gone, own, listed
        before, gone = gone, _expired(newest, keep, older_than)
        if not gone:
            return newest
        files = unreachable(newest, gone)
        if not own or gone != before:
            own = _write_list_if_room(newest, gone, files)
        try:
            after = _with_room(newest, lambda: ice.remove_snapshots(newest, gone))
        except ice.SwapLost as error:
            if error.certain and own:
                remove_file(own)
                own = ""
            raise
        listed = files
        return after

    def is_made(newest: ice.Metadata) -> bool:
        return bool(gone) and all(newest.snapshot(number) is None for number in gone)

    after = swapped(metadata, reload, attempt, is_made)
    done = Removal(snapshots=tuple(gone))
    errors: list[OSError] = []
    if listed is not None:
        # What was committed meanwhile may name files of before, but none of these.
        done, errors = _removed(listed, gone, name)
        if own and not errors:
            remove_file(own)
    # Where it is not known when the snapshots went, the list is read as those of others are.
    left, more = _removed_of_lists(after, "" if listed is None else own)
    _raise_first([*errors, *more])
    return Removal(
        snapshots=done.snapshots,
        files=(*left.files, *done.files),
        bytes=left.bytes + done.bytes,
    )


def _write_list(metadata: ice.Metadata, gone: Sequence[int], files: Sequence[str]) -> str:
    """Writes down what an expiry is to remove: where that is."""
    path = f"{metadata.location}/metadata/{_LIST}{uuid.uuid4()}.json"
    said = {"table": metadata.uuid, "snapshots": list(gone), "files": list(files)}
    with metadata.ice.io.new_output(path).create() as sink:
        sink.write(json.dumps(said).encode())
    return path


def _write_list_if_room(metadata: ice.Metadata, gone: Sequence[int], files: Sequence[str]) -> str:
    """As :func:`_write_list`; empty if the disk is full."""
    try:
        return _write_list(metadata, gone, files)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _log.warning("%s: files are removed without a list: %s", ".".join(metadata.name), error)
        return ""


def _with_room(metadata: ice.Metadata, swap: Callable[[], ice.Metadata]) -> ice.Metadata:
    """Forgets snapshots, which writes a metadata file, also on a full disk.

    The oldest metadata files of the log are removed there to make room. They only tell what the
    table was; its snapshots do not need them.
    """
    try:
        return swap()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        old = [path for path in metadata.metadata_files()[1:-_KEPT_METADATA] if exist([path])[0]]
        if not old:
            raise
        _log.warning("%s: old metadata files are removed: %s", ".".join(metadata.name), error)
        remove_files(old)
        return swap()


def _read_list(metadata: ice.Metadata, path: str) -> tuple[set[int], list[str]]:
    """(snapshots, files) of what :func:`_write_list` wrote.

    Of the files only those below the table's location: whoever writes there can remove those, and
    no others.

    Raises:
        ValueError: it is something else.
    """
    said = json.loads(metadata.read(path))
    table, snapshots, files = (said.get(name) for name in ("table", "snapshots", "files"))
    if table != metadata.uuid or not isinstance(snapshots, list) or not isinstance(files, list):
        raise ValueError("it is not of this table")
    if not snapshots or not all(type(number) is int for number in snapshots):
        raise ValueError("it names no snapshots")
    if not all(isinstance(name, str) for name in files):
        raise ValueError("files that are no texts")
    below = f"{_real(_absolute(metadata.location)).rstrip('/')}/"
    names = map(_absolute, files)
    return set(snapshots), [name for name in names if _real(name).startswith(below)]


def _removed_of_lists(metadata: ice.Metadata, own: str) -> tuple[Removal, list[OSError]]:
    """Removes what expiries that were stopped have left: what that was, and what did not go.

    Args:
        own: the list of the expiry that asks, whose files were just removed.

    Cost: lists the directory of the metadata; where there is such a list, reads the metadata of all
        snapshots.
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
            continue  # the one who wrote it has come to the end
        except BAD_BYTES as error:
            _log.warning("%s: not a list of files to be removed: %s", path, error)
            continue
        if any(snapshot.id in snapshots for snapshot in metadata.snapshots):
            # They are there still: somebody is about to forget them, or never came to that.
            if age > YOUNG.total_seconds():
                remove_file(path)
            continue
        named = _Named([(name, 0, 0.0) for name in files])
        named.learn(metadata)
        wanted = [name for name in files if not named.has(name)]
        # Of files in a store it is not known which are gone already.
        sizes = dict(zip(wanted, _sizes(wanted), strict=True))
        sizes = {name: n for name, n in sizes.items() if n is not None or is_uri(name)}
        # What was changed since may have become part of the table again.
        outcomes = _remove_all(wanted, int(changed * 1000))
        gone = [
            name
            for name, done in zip(wanted, outcomes, strict=True)
            if done is True and name in sizes
        ]
        names += gone
        size += sum(sizes[name] or 0 for name in gone)
        failed = [item for item in outcomes if isinstance(item, OSError)]
        if failed and age < _GIVEN_UP.total_seconds():
            errors += failed
        else:
            remove_file(path)  # what stays is an orphan
    return Removal(files=tuple(names), bytes=size), errors


def _expired(metadata: ice.Metadata, keep: int | None, older_than: Age | None) -> list[int]:
    properties = metadata.properties
    wanted = 1 if keep is None else at_least("keep", keep, 1)
    age: Age = older_than if older_than is not None else _DEFAULT_AGE
    latest = instant_ms(age, "older_than")
    if older_than is None and keep is not None:
        latest = 1 << 62
    now = int(time.time() * 1000)
    least = number_property(properties, MIN_SNAPSHOTS, 1)
    longest = number_property(properties, MAX_AGE, None)

    def limit(age_ms: int | None) -> int:
        return latest if age_ms is None else min(latest, now - age_ms)

    kept: set[int] = set()
    judged: set[int] = set()  # of branches, which may say how long theirs stay
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
            if i < max(wanted, ours) or snapshot.timestamp_ms >= since:
                kept.add(snapshot.id)
    return [
        snapshot.id
        for snapshot in metadata.snapshots
        if snapshot.id not in kept
        and (snapshot.id in judged or snapshot.timestamp_ms < limit(longest))
    ]


def _is_over(name: str, reference: Reference, head: Snapshot, now: int) -> bool:
    """Whether a tag or branch has been there for as long as it was to be."""
    age = reference.age_ms
    return age is not None and name != ice.MAIN and now - head.timestamp_ms > age


def expire_by_default(metadata: ice.Metadata, reload: Callable[[], ice.Metadata]) -> ice.Metadata:
    """Keeps the history of a table short, so that commits stay cheap; the young stay for readers.

    A failure is logged, and no concern of the commit that it comes after, whose caller would make
    it again: files that are left are orphans.
    """
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
    """What :func:`expire` is told after a commit; no number: there is nothing to expire yet."""
    if _is_time(len(metadata.snapshots) - _MOST_SNAPSHOTS):
        return _MOST_SNAPSHOTS, None
    return (KEPT_SNAPSHOTS, YOUNG) if _is_time(superfluous(metadata)) else (None, None)


def _is_time(too_many: int) -> bool:
    """Whether a commit that leaves so many snapshots too many expires them.

    Of many processes that commit, that is one; all of them, where that one has not come to an end.
    """
    return too_many == _AT_ONCE or too_many >= 2 * _AT_ONCE


def expired_by_advice(metadata: ice.Metadata) -> list[int]:
    """Snapshots that go where the oldest are advised to: what tags and properties keep stays."""
    return _expired(metadata, KEPT_SNAPSHOTS, YOUNG)


def superfluous(metadata: ice.Metadata) -> int:
    """Snapshots beyond the newest that commits leave, without young ones."""
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
    """Removes files, some at a time: what was to go, and why some did not."""
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
    """Removes files, some at a time: why some did not go, each of which was tried some times."""
    return [item for item in _remove_all(paths, None) if isinstance(item, OSError)]


def _remove_all(paths: Sequence[str], limit_ms: int | None) -> list[bool | OSError]:
    """Removes files, some at a time: of each whether it was, or why not.

    Args:
        limit_ms: one that was changed after this instant stays.
    """
    with ThreadPoolExecutor(_REMOVED_AT_ONCE) as pool:
        return list(pool.map(lambda path: _remove(path, limit_ms), paths))


def _raise_first(errors: Sequence[OSError]) -> None:
    if errors:
        raise OSError(
            f"{len(errors)} files could not be removed, which the next call finds again: "
            f"{errors[0]}"
        ) from errors[0]


def _changed_ms(path: str) -> float:
    return _facts(path).st_mtime * 1000


def _facts(path: str) -> os.stat_result:
    """Of a file; of a symbolic link that leads nowhere, or to itself, those of the link.

    Raises:
        FileNotFoundError: there is neither.
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
            # Right before: it may have become part of the table since it was listed.
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
    """Bytes of each file, where they can be known. Cost: in a store a request each."""
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
    """Removes files below the table's location that no snapshot names."""
    # The end of that millisecond: files know theirs more exactly.
    limit = instant_ms(older_than, "older_than") + 1
    # Listed first: what is committed after that is not in the list.
    there = _without_others(_files_below(reload().location), reload())
    named = _Named(there)
    named.learn(reload())
    sizes = {
        path: size
        for path, size, changed in there
        if changed * 1000 <= limit and not named.has(path)
    }
    if dry_run:
        return Removal(files=tuple(sizes), bytes=sum(sizes.values()))
    ice.check_may_remove(reload())
    # A commit may have made old files part of the table meanwhile. So before some are removed the
    # table is asked again, and each file whether it is still old: `add_files` makes its own young.
    done: list[str] = []
    errors: list[OSError] = []
    orphans = list(sizes)
    for first in range(0, len(orphans), _ASKED_AT_ONCE):
        named.learn(reload())
        some = [path for path in orphans[first : first + _ASKED_AT_ONCE] if not named.has(path)]
        outcomes = _remove_all(some, limit)
        done += [path for path, outcome in zip(some, outcomes, strict=True) if outcome is True]
        errors += [outcome for outcome in outcomes if isinstance(outcome, OSError)]
    _log.info("%s: remove_orphans: %d files removed", ".".join(reload().name), len(done))
    _raise_first(errors)
    return Removal(files=tuple(done), bytes=sum(sizes[path] for path in done))


def _without_others(
    listing: list[tuple[str, int, float]], metadata: ice.Metadata
) -> list[tuple[str, int, float]]:
    """Without files of other tables, and of the catalog, where the location lies above them.

    A table lies where its metadata files are.
    """
    location, own = _absolute(metadata.location), os.path.dirname(_absolute(metadata.metadata_file))
    others = set()
    for folder in {os.path.dirname(p) for p, _, _ in listing if p.endswith(".metadata.json")}:
        root = os.path.dirname(folder) if os.path.basename(folder) == "metadata" else folder
        if folder != own and root.startswith(f"{location.rstrip('/')}/"):
            others.add(root)
    if others:
        _log.warning("%s: files of other tables lie below it, and stay", location)
    database = ice.database_of(metadata)
    name = os.path.basename(database or "")

    def is_other(path: str) -> bool:
        folder = path
        while others and len(folder := os.path.dirname(folder)) > len(location):
            if folder in others:
                return True
        # Beside the database itself there may be its journals.
        is_like_it = database is not None and os.path.basename(path).startswith(name)
        return is_like_it and _real(path).startswith(database or "")

    return [item for item in listing if not is_other(item[0])]


class _Named:
    """Which files of a listing the metadata of a table names, through symbolic links too."""

    def __init__(self, listing: Iterable[tuple[str, int, float]]) -> None:
        self._listed = {path for path, _, _ in listing}
        self._known: set[int] = set()
        self._metadata_file = ""
        self._paths: set[str] = set()
        # Where the links among the files lead, and those that are named by other paths.
        self._real: set[str] = {
            os.path.realpath(path) for path, _, _ in listing if os.path.islink(path)
        }

    def learn(self, metadata: ice.Metadata) -> None:
        """Adds what a version of the table names. Cost: reads what the last one did not name."""
        if metadata.metadata_file == self._metadata_file:
            return
        for locations in reachable_files(metadata, self._known):
            paths = set(map(_absolute, locations.to_pylist()))
            self._paths |= paths & self._listed
            self._real.update(map(_real, paths - self._listed))
        self._known.update(snapshot.id for snapshot in metadata.snapshots)
        self._metadata_file = metadata.metadata_file

    def has(self, path: str) -> bool:
        return path in self._paths or (bool(self._real) and _real(path) in self._real)


def census(reload: Callable[[], ice.Metadata]) -> pa.Table:
    """Every file below the location, and every one that a snapshot names."""
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
                # of a name that is no text, what can be shown
                "path": path.encode(errors="surrogateescape").decode(errors="backslashreplace"),
                "bytes": size,
                "kind": _kind_of(path),
                "reachable": False,
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


def _kind_of(path: str) -> str:
    name = os.path.basename(path)
    if name.startswith(_LIST) and name.endswith(".json"):
        return "expiry"
    if name.endswith(".metadata.json"):
        return "metadata"
    if name.startswith("plan-"):
        return "plan index"
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
    """A path or URI as it is called only once.

    A local file may be named through symbolic links, an object of S3 by the schemes of Hadoop.
    """
    if not is_uri(path):
        return os.path.realpath(path)
    scheme, _, rest = path.partition("://")
    return f"s3://{rest}" if scheme in ("s3a", "s3n") else path


def _key(path: str) -> str:
    """As :func:`_real`, without a look at the files of this machine."""
    return _real(path) if is_uri(path) else path


def _files_below(location: str) -> list[tuple[str, int, float]]:
    """(path, bytes, seconds since 1970 of the last change) of all files of a table."""
    root = readable_path(location)
    place = locate(root)
    if not place.is_local:
        below = root.rstrip("/")
        return [(f"{below}/{name}", size, changed) for name, size, changed in place.files()]
    found = []
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(os.path.abspath(folder), name)
            try:
                facts = _facts(path)
            except FileNotFoundError:
                continue
            found.append((path, facts.st_size, facts.st_mtime))
    return found
