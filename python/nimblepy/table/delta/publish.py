"""Publishes the newest snapshot of an Iceberg table in a Delta log beside its data files.

The log follows the Iceberg table, which is authoritative. Each commit publishes after it took
effect; if that fails, the next commit publishes both. Concurrent publishers cannot make the log
older: each reads the log's newest commit, then the newest metadata, and creates the next commit
only if no other publisher has.
"""

from __future__ import annotations

import functools
import json
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from nimblepy.errors import ConflictError, InvalidArgumentError
from nimblepy.io.fork import renew_after_fork
from nimblepy.io.location import locate
from nimblepy.io.log import logger
from nimblepy.schema.field_ids import field_id_of, has_field_ids, with_field_ids
from nimblepy.table import iceberg as ice
from nimblepy.table.base.file_names import (
    PUBLISHES_DELTA,
    check_case,
    file_names,
    inner_fields,
    name_in_files,
    names_property,
)
from nimblepy.table.base.model import MAIN, DataFile, Snapshot
from nimblepy.table.base.places import readable_path
from nimblepy.table.delta.actions import (
    DELETES_TAG,
    deletes_digest,
    inline_vector,
    path_in_log,
    statistics,
)
from nimblepy.table.delta.log import OWN, DeltaLog, LogState
from nimblepy.table.delta.schema import has_naive_times, schema_text
from nimblepy.table.reading.fileset import reading_of
from nimblepy.table.reading.members import Member, Reading
from nimblepy.table.reading.plan import SnapshotPlan

_log = logger(__name__)

# Number of tables whose log is kept in memory.
_KEPT_LOGS = 16
_MAPPING = "columnMapping"
_VECTORS = "deletionVectors"
_NAIVE_TIMES = "timestampNtz"


class _Logs:
    """The newest known state of logs by path. A thread that uses one holds its lock.

    A store that does not answer blocks only the commits of its own table.
    """

    def __init__(self) -> None:
        self._states: OrderedDict[str, LogState] = OrderedDict()
        renew_after_fork(self)
        self.renew_after_fork()

    def renew_after_fork(self) -> None:
        self._locks: dict[str, threading.RLock] = {}

    def lock(self, path: str) -> Any:
        """Returns the lock of a log."""
        return self._locks.setdefault(path, threading.RLock())

    def take(self, path: str) -> LogState | None:
        """Removes and returns a state. The caller changes it and puts it back."""
        return self._states.pop(path, None)

    def put(self, path: str, state: LogState) -> None:
        self._states[path] = state
        if len(self._states) > _KEPT_LOGS:
            self._states.popitem(last=False)


_logs = _Logs()


def publish_commit(metadata: ice.Metadata, reload: Callable[[], ice.Metadata]) -> None:
    """Publishes a commit of a table that asks for it. An error is logged, and not raised."""
    if metadata.properties.get(PUBLISHES_DELTA) != "true":
        return
    try:
        publish(metadata, reload)
    except Exception as error:  # the commit took effect
        _log.warning(
            "%s: the Delta log was not brought up to date: %s; the next commit or publish_delta() "
            "does it",
            ".".join(metadata.name),
            error,
        )


def publish(metadata: ice.Metadata, reload: Callable[[], ice.Metadata]) -> int:
    """Publishes the newest snapshot of ``main``, and returns the number of its Delta commit.

    Raises:
        InvalidArgumentError: the table has data or types that Delta does not have.
        ConflictError: another program wrote to the Delta table, or every attempt lost.
    """
    log = DeltaLog(metadata.location)
    with _logs.lock(log.path):
        for _ in range(ice.MOST_ATTEMPTS):
            state = log.read(_logs.take(log.path))
            if state.version >= 0 and not _follows(metadata, state):
                metadata = reload()
            names = file_names(metadata.properties)
            actions = _actions(metadata.on(MAIN), state, names)
            if len(actions) == 1 or log.write(state, actions):
                _logs.put(log.path, state)
                if log.needs_checkpoint(state):
                    log.write_checkpoint(state)
                return state.version
    raise ConflictError(
        f"{'.'.join(metadata.name)}: publish_delta: every attempt lost to other writers; try again "
        "later",
        kind="attempts",
    )


def check(metadata: ice.Metadata, properties: Mapping[str, str]) -> None:
    """Raises what :func:`publish` would raise for a table with these properties. Writes nothing."""
    state = DeltaLog(metadata.location).read()
    _actions(metadata.on(MAIN), state, file_names({**metadata.properties, **properties}))


def check_columns(schema: pa.Schema, properties: Mapping[str, str]) -> None:
    """Raises InvalidArgumentError if a table is published, and cannot be with these columns."""
    if properties.get(PUBLISHES_DELTA) != "true":
        return
    try:
        check_case(schema)
        schema_text(schema, {})
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"{error}; publish_delta(keep=False) stops publishing this table"
        ) from error


def check_snapshot(metadata: ice.Metadata, snapshot: Snapshot) -> None:
    """Raises InvalidArgumentError if a table is published, and Delta would misread a snapshot."""
    if metadata.properties.get(PUBLISHES_DELTA) != "true":
        return
    state = DeltaLog(metadata.location).read()
    try:
        _adds_of(metadata, file_names(metadata.properties), state, snapshot)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"{error}; or publish_delta(keep=False) stops publishing this table"
        ) from error


def _follows(metadata: ice.Metadata, state: LogState) -> bool:
    """Returns whether the metadata is the published one or newer."""
    published = state.info.get("metadata")
    return any(os.path.basename(path) == published for path in metadata.metadata_files())


def _actions(
    metadata: ice.Metadata, state: LogState, names: Mapping[int, str]
) -> list[dict[str, Any]]:
    """Returns the actions that bring a log up to date; only `commitInfo` if it already is."""
    now = int(time.time() * 1000)
    head = metadata.head()
    schema = metadata.schema()
    check_case(schema)
    adds = _adds_of(metadata, names, state, head)
    left = state.adds.keys() - adds.keys()
    changed = {path: add for path, add in adds.items() if add is not state.adds.get(path)}
    features = set(state.protocol.get("readerFeatures") or ())
    features |= {_MAPPING} if names else set()
    features |= {_NAIVE_TIMES} if has_naive_times(schema) else set()
    features |= {_VECTORS} if any("deletionVector" in add for add in changed.values()) else set()
    settings = {"delta.enableDeletionVectors": "true"} if _VECTORS in features else {}
    if names:
        last = str(metadata.ice.metadata.last_column_id)
        settings |= {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": last}
    described = {
        "id": metadata.uuid,
        "name": ".".join(metadata.name),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema_text(schema, names),
        "partitionColumns": [],
        "configuration": settings,
        "createdTime": state.metadata.get("createdTime", now),
    }
    actions: list[dict[str, Any]] = []
    protocol = _protocol(features)
    if protocol != state.protocol:
        actions.append({"protocol": protocol})
    if described != state.metadata:
        actions.append({"metaData": described})
    # A commit must not remove and add a file with the same deleted rows.
    again = {
        path
        for path in changed.keys() & state.adds.keys()
        if state.adds[path].get("deletionVector") != changed[path].get("deletionVector")
    }
    for path in sorted({*left, *again}):
        actions.append({"remove": _removal(state.adds[path], now)})
    actions += [{"add": add} for add in changed.values()]
    facts = {
        "snapshot": None if head is None else head.id,
        "columns": columns_key(schema, names),
        "metadata": os.path.basename(metadata.metadata_file),
    }
    info = {"timestamp": now, "operation": "WRITE", "engineInfo": "nimblepy", OWN: facts}
    return [{"commitInfo": info}, *actions]


def _protocol(features: set[str]) -> dict[str, Any]:
    if not features:
        return {"minReaderVersion": 1, "minWriterVersion": 2}
    names = sorted(features)
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": names,
        "writerFeatures": names,
    }


def _removal(add: Mapping[str, Any], now: int) -> dict[str, Any]:
    removal = {"path": add["path"], "deletionTimestamp": now, "dataChange": True}
    if "deletionVector" in add:
        removal["deletionVector"] = add["deletionVector"]
    return removal


def _adds_of(
    metadata: ice.Metadata, names: Mapping[int, str], state: LogState, head: Snapshot | None
) -> dict[str, dict[str, Any]]:
    """Returns the `add` actions of a snapshot by path; those of ``state`` if unchanged."""
    if head is None:
        return {}
    reading = reading_of(metadata, metadata.schema_id)
    try:
        plan = SnapshotPlan(metadata, head, metadata.schema_id)
        members = plan.members()
        adds: dict[str, dict[str, Any]] = {}
        # After a change of columns, every file is checked again.
        are_checked = state.info.get("columns") == columns_key(reading.schema, names)
        if not plan.has_deletes and are_checked:
            paths = [path for part in members.files.parts for path in part.paths.to_pylist()]
            for path in paths:
                key = _key(path, metadata.location)
                add = state.adds.get(key)
                if add is not None and not _digest_in(add):
                    adds[key] = add
            if len(adds) == len(members):
                return adds
        adding = _Adding(metadata, reading, names, head.timestamp_ms)
        for member in members:
            key = _key(member.file.path, metadata.location)
            add = adds.get(key) or state.adds.get(key)
            if add is None or not are_checked:
                adding.check(member.file)
            if add is None or _digest_in(add) != deletes_digest(member.deletes):
                add = adding.action(key, member, add)
            adds[key] = add
        return adds
    finally:
        reading.close()


_key = functools.lru_cache(1 << 16)(path_in_log)


@dataclass(frozen=True, slots=True, eq=False)
class _Adding:
    """Makes `add` actions."""

    metadata: ice.Metadata
    reading: Reading
    names: Mapping[int, str]
    timestamp_ms: int

    def action(self, path: str, member: Member, before: dict[str, Any] | None) -> dict[str, Any]:
        """Returns the action of a file.

        Args:
            before: its action in the log; ``None`` for a new file.
        """
        file = member.file
        deleted = self.reading.deleted(member)
        has_deletes = deleted is not None and len(deleted) > 0
        if before is not None and ("deletionVector" in before) == has_deletes:
            stats = before["stats"]
        else:
            stats = statistics(file, self.reading.schema, self.names, has_deletes=has_deletes)
        made: dict[str, Any] = {
            "path": path,
            "partitionValues": {},
            "size": file.bytes,
            "modificationTime": self.timestamp_ms,
            "dataChange": True,
            "stats": stats,
            "tags": {DELETES_TAG: deletes_digest(member.deletes)},
        }
        if deleted is not None and has_deletes:
            made["deletionVector"] = inline_vector(deleted)
        return made

    def check(self, file: DataFile) -> None:
        """Raises InvalidArgumentError if Delta would read a file wrongly."""
        name = ".".join(self.metadata.name)
        if file.format != "PARQUET":
            raise InvalidArgumentError(
                f"{name}: publish_delta: {file.path} is a {file.format.lower()} file; Delta has "
                "only Parquet files: convert('parquet') rewrites the table"
            )
        in_file = schema_of(file, self.reading)
        names = {field_id_of(field): field.name for field in in_file}
        lower = {field.name.lower() for field in in_file}
        for field in self.reading.schema:
            number = field_id_of(field)
            expected = name_in_files(field, self.names)
            if number in names and names[number] != expected:
                why = f"its column {field.name!r} has the name {names[number]!r} in it"
            elif number not in names and expected.lower() in lower:
                why = f"it has another column with the name {expected!r}"
            elif number not in names and self._value(file, field) is not None:
                why = f"it lacks column {field.name!r}, whose value is in the table's metadata"
            else:
                continue
            raise self._misread(file, why)
        now, then = inner_fields(self.reading.schema), inner_fields(in_file)
        places = {number: place for place, number in then.items()}
        for place, number in now.items():
            name = place.partition(".")[2]
            if places.get(number, place) != place or then.get(place, number) != number:
                raise self._misread(file, f"the field {name!r} inside a column has another name")
            elif number in self.reading.defaults and number not in places:
                raise self._misread(file, f"it lacks the field {name!r}, which has a default")

    def _misread(self, file: DataFile, why: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"{'.'.join(self.metadata.name)}: publish_delta: Delta would misread {file.path}, "
            f"because {why}; rewrite the file, for example by overwrite() with its rows"
        )

    def _value(self, file: DataFile, field: pa.Field) -> Any:
        """Returns the value of a column that a file does not have; ``None`` for nulls."""
        number = field_id_of(field)
        value = self.reading.constants(file, self.reading.schema).get(number or -1)
        value = self.reading.defaults.get(number or -1) if value is None else value
        return value if value is not None and value.is_valid else None


def schema_of(file: DataFile, reading: Reading) -> pa.Schema:
    """Returns the columns of a Parquet file, with field ids. Cost: one read."""
    from pyarrow import parquet

    place = locate(readable_path(file.path))
    if place.is_local:
        schema = parquet.read_schema(place.path)
    else:
        from nimblepy.io.file_object import RemoteFileObject

        schema = parquet.read_schema(RemoteFileObject(place.open()))
    if reading.names and not has_field_ids(schema):
        schema = with_field_ids(schema, reading.names)
    return schema


def _digest_in(add: Mapping[str, Any]) -> str:
    """Returns the digest of the delete files that an action was made with."""
    return str((add.get("tags") or {}).get(DELETES_TAG, "unknown"))


def columns_key(schema: pa.Schema, names: Mapping[int, str]) -> str:
    """Returns a text that changes with the columns and their names in files."""
    columns = [[field_id_of(field), field.name, str(field.type)] for field in schema]
    inner = sorted(inner_fields(schema).items())
    text = json.dumps([columns, inner, sorted(names.items())])
    return blake2b(text.encode(), digest_size=16).hexdigest()


def first_properties(metadata: ice.Metadata) -> dict[str, str]:
    """Returns the properties of a table that begins to publish.

    Cost: reads the footers of all data files if columns were ever changed.

    Raises:
        InvalidArgumentError: a column has different names in different files.
    """
    if metadata.properties.get(PUBLISHES_DELTA) == "true":
        return {PUBLISHES_DELTA: "true"}
    schemas: Sequence[Any] = metadata.ice.metadata.schemas
    head = metadata.head()
    names: dict[int, str] = {}
    if head is not None and len(schemas) > 1:
        reading = reading_of(metadata, metadata.schema_id)
        plan = SnapshotPlan(metadata, head, metadata.schema_id)
        current = {field_id_of(field): field.name for field in reading.schema}
        for path, in_file in _names_of_all(plan, reading):
            for number, name in in_file.items():
                if number in current and names.setdefault(number, name) != name:
                    raise InvalidArgumentError(
                        f"{'.'.join(metadata.name)}: publish_delta: column {current[number]!r} has "
                        f"the name {name!r} in {path}, and {names[number]!r} in other files, which "
                        "Delta does not allow; rewrite the rows, for example by overwrite()"
                    )
        names = {number: name for number, name in names.items() if name != current[number]}
    return {PUBLISHES_DELTA: "true", **names_property(names)}


def _names_of_all(plan: SnapshotPlan, reading: Reading) -> Iterator[tuple[str, dict[int, str]]]:
    for member in plan.members():
        if member.file.format == "PARQUET":
            columns = schema_of(member.file, reading)
            names = {field_id_of(field): field.name for field in columns}
            yield member.file.path, {n: name for n, name in names.items() if n is not None}
