"""Reads and writes a Delta log: numbered commits in JSON, and checkpoints in Parquet.

The format is described in https://github.com/delta-io/delta/blob/master/PROTOCOL.md. A commit is
created only if no other writer has created that number.
"""

from __future__ import annotations

import io
import json
import os
import re
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from nimblepy.errors import ConflictError, CorruptFileError
from nimblepy.io.location import Location, locate
from nimblepy.table import iceberg as ice
from nimblepy.table.base.damage import BAD_BYTES
from nimblepy.table.base.file_names import DELTA_LOG
from nimblepy.table.base.places import readable_path

# The key of nimblepy's own facts in the `commitInfo` of a commit.
OWN = "nimblepy"
# Number of commits between two checkpoints, and seconds that older commits are kept after one.
_COMMITS = 50
_KEPT_SECONDS = 86_400
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")

_TEXTS = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_CHECKPOINT_SCHEMA = pa.schema(
    {
        "protocol": pa.struct(
            [
                ("minReaderVersion", pa.int32()),
                ("minWriterVersion", pa.int32()),
                ("readerFeatures", pa.list_(pa.string())),
                ("writerFeatures", pa.list_(pa.string())),
            ]
        ),
        "metaData": pa.struct(
            [
                ("id", pa.string()),
                ("name", pa.string()),
                ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
                ("schemaString", pa.string()),
                ("partitionColumns", pa.list_(pa.string())),
                ("configuration", _TEXTS),
                ("createdTime", pa.int64()),
            ]
        ),
        "add": pa.struct(
            [
                ("path", pa.string()),
                ("partitionValues", _TEXTS),
                ("size", pa.int64()),
                ("modificationTime", pa.int64()),
                ("dataChange", pa.bool_()),
                ("stats", pa.string()),
                ("tags", _TEXTS),
                ("deletionVector", _VECTOR),
            ]
        ),
        "remove": pa.struct(
            [
                ("path", pa.string()),
                ("deletionTimestamp", pa.int64()),
                ("dataChange", pa.bool_()),
            ]
        ),
    }
)


@dataclass(slots=True)
class LogState:
    """What a log says after its newest commit.

    Attributes:
        version: number of the newest commit; -1 without any.
        info: nimblepy's facts about the newest commit.
        adds: live files by path: their `add` actions.
        checkpoint: number of the newest checkpoint; -1 without any.
    """

    version: int = -1
    info: dict[str, Any] = field(default_factory=dict)
    protocol: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    adds: dict[str, dict[str, Any]] = field(default_factory=dict)
    checkpoint: int = -1

    def apply(self, actions: Iterable[Mapping[str, Any]]) -> None:
        """Applies the actions of one commit."""
        # A file whose deleted rows change is removed and added in one commit, in any order.
        added: dict[str, dict[str, Any]] = {}
        for action in actions:
            if "add" in action:
                added[action["add"]["path"]] = dict(action["add"])
            elif "remove" in action:
                self.adds.pop(action["remove"]["path"], None)
            elif "metaData" in action:
                self.metadata = dict(action["metaData"])
            elif "protocol" in action:
                self.protocol = dict(action["protocol"])
        self.adds.update(added)


class DeltaLog:
    """The log of one table."""

    def __init__(self, location: str) -> None:
        """
        Args:
            location: the directory of the table.
        """
        self.path = f"{readable_path(location).rstrip('/')}/{DELTA_LOG}"

    def read(self, earlier: LogState | None = None) -> LogState:
        """Returns the state of the newest commit.

        Args:
            earlier: an earlier state, from which the later commits are applied. It is changed.

        Raises:
            ConflictError: another program has written a commit.
            CorruptFileError: a commit is missing or damaged.

        Cost: one listing, one read for each later commit; without ``earlier`` also the newest
        checkpoint.
        """
        names = self._place().names()
        numbers = sorted(int(found[1]) for name in names if (found := _COMMIT.fullmatch(name)))
        if not numbers:
            return LogState()
        # Someone may have removed the log, and published again.
        is_known = earlier is not None and earlier.version in numbers
        state = earlier if earlier is not None and is_known else self._begin(names)
        for number in range(state.version + 1, numbers[-1] + 1):
            self._apply(state, number)
        return state

    def _begin(self, names: Iterable[str]) -> LogState:
        checkpoints = [int(match[1]) for name in names if (match := _CHECKPOINT.fullmatch(name))]
        state = LogState()
        if not checkpoints:
            return state
        from pyarrow import parquet

        number = max(checkpoints)
        path = f"{number:020d}.checkpoint.parquet"
        octets = self._read(path)
        with self._damage(path):
            table = parquet.read_table(io.BytesIO(octets))
            state.apply(_from_parquet(row) for row in table.to_pylist())
        state.version = state.checkpoint = number
        with self._damage(_name(number)):
            state.info = self._info(number, self._actions(number))
        return state

    def _apply(self, state: LogState, number: int) -> None:
        actions = self._actions(number)
        with self._damage(_name(number)):
            state.info = self._info(number, actions)
            state.apply(actions)
        state.version = number

    def _actions(self, number: int) -> list[dict[str, Any]]:
        name = _name(number)
        try:
            octets = self._read(name)
        except FileNotFoundError as error:
            raise CorruptFileError(
                f"{self.path}/{name}: this commit of the Delta log is missing"
            ) from error
        actions: list[dict[str, Any]] = []
        with self._damage(name):
            actions += [json.loads(line) for line in octets.splitlines() if line.strip()]
        return actions

    def _info(self, number: int, actions: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        infos = [action["commitInfo"] for action in actions if "commitInfo" in action]
        own = infos[0].get(OWN) if infos else None
        if not isinstance(own, dict):
            engine = infos[0].get("engineInfo", "another program") if infos else "another program"
            raise ConflictError(
                f"{self.path}/{_name(number)}: {engine} wrote to the Delta table, and its rows are "
                "not in the Iceberg table; append them to the Iceberg table, remove the directory "
                f"{DELTA_LOG}, and call publish_delta() again",
                kind="reference",
            )
        return own

    def write(self, state: LogState, actions: list[dict[str, Any]]) -> bool:
        """Creates the next commit, and applies it to ``state``.

        Returns:
            Whether it was created; ``False`` if another writer has created that number.

        Cost: one conditional put; for one of 50 commits also a checkpoint.
        """
        number = state.version + 1
        text = "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
        if not ice.create_object(f"{self.path}/{_name(number)}", text.encode()):
            return False
        state.apply(actions)
        state.version, state.info = number, actions[0]["commitInfo"][OWN]
        return True

    def needs_checkpoint(self, state: LogState) -> bool:
        return state.version - state.checkpoint >= _COMMITS

    def write_checkpoint(self, state: LogState) -> None:
        """Writes a checkpoint of the newest commit, and removes files that no reader needs."""
        from pyarrow import parquet

        rows: list[dict[str, Any]] = [{"protocol": state.protocol}, {"metaData": state.metadata}]
        rows += [{"add": add} for add in state.adds.values()]
        table = pa.Table.from_pylist([_for_parquet(row) for row in rows], _CHECKPOINT_SCHEMA)
        sink = pa.BufferOutputStream()
        parquet.write_table(table, sink, compression="snappy")
        octets = sink.getvalue().to_pybytes()
        self._write(f"{state.version:020d}.checkpoint.parquet", octets)
        last = {"version": state.version, "size": len(rows)}
        self._write("_last_checkpoint", json.dumps(last).encode())
        before, state.checkpoint = state.checkpoint, state.version
        self._remove_before(before)

    def _remove_before(self, number: int) -> None:
        """Removes commits and checkpoints before a checkpoint that are older than a day."""
        old = time.time() - _KEPT_SECONDS
        place = self._place()
        files: Iterable[tuple[str, float]]
        if place.is_local:
            with os.scandir(place.path) as entries:
                files = [(entry.name, entry.stat().st_mtime) for entry in entries]
        else:
            files = [(name, changed) for name, _, changed in place.files()]
        for name, changed in files:
            named = _COMMIT.fullmatch(name) or _CHECKPOINT.fullmatch(name)
            if named is not None and int(named[1]) < number and changed < old:
                self._place(name).remove()

    def paths(self) -> list[str]:
        """Returns all files of the log."""
        return [f"{self.path}/{name}" for name in self._place().names()]

    def _place(self, name: str = "") -> Location:
        return locate(f"{self.path}/{name}" if name else self.path)

    def _read(self, name: str) -> bytes:
        place = self._place(name)
        if not place.is_local:
            return place.read()
        with open(place.path, "rb") as source:
            return source.read()

    def _write(self, name: str, octets: bytes) -> None:
        place = self._place(name)
        if not place.is_local:
            place.write(octets)
            return
        temporary = f"{place.path}.{uuid.uuid4().hex}.tmp"
        with open(temporary, "wb") as sink:
            sink.write(octets)
        os.replace(temporary, place.path)

    def _damage(self, name: str) -> _Damage:
        return _Damage(f"{self.path}/{name}")


class _Damage:
    """Raises CorruptFileError for content that cannot be parsed."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, (*BAD_BYTES, pa.ArrowException)):
            raise CorruptFileError(f"{self._path}: it is damaged: {error}") from error


def _name(number: int) -> str:
    return f"{number:020d}.json"


def _for_parquet(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an action with a list of pairs for each map, as pyarrow expects it."""

    def made(value: Any, kind: pa.DataType) -> Any:
        if isinstance(value, Mapping) and pa.types.is_map(kind):
            return list(value.items())
        if isinstance(value, Mapping) and pa.types.is_struct(kind):
            return {item.name: made(value.get(item.name), item.type) for item in kind}
        return value

    return {name: made(value, _CHECKPOINT_SCHEMA.field(name).type) for name, value in row.items()}


# Members of actions that are maps.
_MAPS = {"partitionValues", "tags", "configuration", "options"}


def _from_parquet(value: Any) -> Any:
    """Converts an action of a checkpoint, by any writer, to the form it has in commits."""
    if isinstance(value, dict):
        return {
            name: dict(item) if name in _MAPS else _from_parquet(item)
            for name, item in value.items()
            if item is not None
        }
    return value
