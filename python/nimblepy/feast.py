"""An online store for Feast, in tables of a lake.

    online_store:
        type: nimblepy.feast.NimbleOnlineStore
        path: data/lake            # or nimble://HOST:PORT, which only reads

Each feature view is a table ``NAMESPACE.PROJECT_VIEW`` with the primary key ``entity_key``: Feast's
serialized entity key. Underscores of the project are doubled, and characters of the view that
table names cannot contain are written as ``%2E``, so that two views never share a table. Features
of scalar and list types are columns of these types. Values of other types, such as maps, are
serialized protobuf values.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal, TypeVar

import pyarrow as pa

from nimblepy import _core
from nimblepy.errors import (
    ConflictError,
    InvalidArgumentError,
    MissingExtraError,
    StaleFileError,
)
from nimblepy.serving.connect import connect

try:
    from feast import utils
    from feast.entity import Entity
    from feast.feature_view import FeatureView
    from feast.infra.key_encoding_utils import serialize_entity_key
    from feast.infra.online_stores.online_store import OnlineStore
    from feast.protos.feast.serving.ServingService_pb2 import (
        FieldStatus,
        GetOnlineFeaturesResponse,
    )
    from feast.protos.feast.types import Value_pb2
    from feast.protos.feast.types.EntityKey_pb2 import EntityKey
    from feast.repo_config import FeastConfigBaseModel, RepoConfig
    from feast.value_type import ValueType
except ImportError as error:
    raise MissingExtraError("Feast is not installed: pip install 'nimblepy[feast]'") from error

KEY = "entity_key"
EVENT_TIME = "event_timestamp"
CREATED = "created_timestamp"
_OWN = (KEY, EVENT_TIME, CREATED)
_TIME = pa.timestamp("us", tz="UTC")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# The field of a protobuf value, and the type of the column.
_SCALARS: dict[ValueType, tuple[str, pa.DataType]] = {
    ValueType.BYTES: ("bytes_val", pa.binary()),
    ValueType.STRING: ("string_val", pa.string()),
    ValueType.INT32: ("int32_val", pa.int32()),
    ValueType.INT64: ("int64_val", pa.int64()),
    ValueType.DOUBLE: ("double_val", pa.float64()),
    ValueType.FLOAT: ("float_val", pa.float32()),
    ValueType.BOOL: ("bool_val", pa.bool_()),
    ValueType.UNIX_TIMESTAMP: ("unix_timestamp_val", pa.int64()),  # seconds
}
_LISTS: dict[ValueType, tuple[str, pa.DataType]] = {
    ValueType[f"{kind.name}_LIST"]: (
        field.replace("_val", "_list_val"),
        pa.list_(pa.field("element", item, nullable=False)),
    )
    for kind, (field, item) in _SCALARS.items()
}
_SERIALIZED = pa.binary()
# Up to this number of keys, reading row by row is faster than one lookup.
_FEW_KEYS = 8
# Selections of features to remember.
_MOST_REQUESTS = 1000
Answer = TypeVar("Answer")


class NimbleOnlineStoreConfig(FeastConfigBaseModel):
    """The ``online_store`` of a ``feature_store.yaml``.

    Attributes:
        path: a lake, or the address of a server, which serves the table of each view under the name
            ``PROJECT_VIEW``.
        namespace: the namespace of the tables.
        token: the token for a server that requires one.
        refresh_seconds: maximum age of the snapshot that a read uses.
    """

    type: Literal["nimblepy.feast.NimbleOnlineStore"] = "nimblepy.feast.NimbleOnlineStore"
    path: str = "data/online_lake"
    namespace: str = "feast"
    token: str | None = None
    refresh_seconds: float = 1.0


class _Feature:
    """Converts the values of a feature."""

    def __init__(self, name: str, kind: ValueType) -> None:
        self.name = name
        self.field, self.type = _SCALARS.get(kind) or _LISTS.get(kind) or ("", _SERIALIZED)
        self._is_list = kind in _LISTS

    def to_column(self, value: Any) -> Any:
        held = value.WhichOneof("val")
        if held is None or held == "null_val":
            return None
        if not self.field:
            return value.SerializeToString()
        if held != self.field:
            raise InvalidArgumentError(
                f"feature {self.name}: the value is a {held}; expected {self.field}"
            )
        plain = getattr(value, held)
        return list(plain.val) if self._is_list else plain

    @property
    def number(self) -> int:
        """The field of a value that holds the column's values; 0 for serialized values."""
        fields = Value_pb2.Value.DESCRIPTOR.fields_by_name
        return fields[self.field].number if self.field else 0

    def to_value(self, held: Any) -> Any:
        """Returns the protobuf value of a column's value."""
        value = Value_pb2.Value()
        self.fill(value, held)
        return value

    def fill(self, value: Any, held: Any) -> None:
        """Sets a protobuf value to a column's value. A null leaves it empty."""
        if held is None:
            return
        if not self.field:
            value.ParseFromString(held)
        elif self._is_list:
            getattr(value, self.field).val.extend(held)
            getattr(value, self.field).SetInParent()  # also for an empty list
        else:
            setattr(value, self.field, held)


class NimbleOnlineStore(OnlineStore):
    """Reads and writes the newest values of features, by entity key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lakes: dict[tuple[str, str | None], Any] = {}
        self._tables: dict[tuple[str, str], Any] = {}
        self._features: dict[Any, tuple[FeatureView, list[_Feature]]] = {}

    # ---- reading

    def online_read(
        self,
        config: RepoConfig,
        table: FeatureView,
        entity_keys: list[EntityKey],
        requested_features: list[str] | None = None,
    ) -> list[tuple[datetime | None, dict[str, Any] | None]]:
        """Returns the event time and the features of each entity; ``(None, None)`` if missing."""
        features = self._features_of(table, requested_features)
        names = [feature.name for feature in features]
        columns = [EVENT_TIME, *names]
        keys = _keys(config, entity_keys)
        rows = self._on_table(config, table, lambda opened: _read(opened, keys, columns))
        makers = [feature.to_value for feature in features]
        answers: list[tuple[datetime | None, dict[str, Any] | None]] = []
        for row in rows:
            if row is None or row[0] is None:
                answers.append((None, None))
                continue
            time, *values = row
            made = [make(value) for make, value in zip(makers, values, strict=True)]
            answers.append((time, dict(zip(names, made, strict=True))))
        return answers

    def _read_features_per_fv(
        self,
        config: RepoConfig,
        grouped_refs: list[tuple[FeatureView, list[str]]],
        join_key_values: dict[str, Any],
        entity_name_to_join_key_map: dict[str, str],
        online_features_response: Any,
        full_feature_names: bool,
        include_feature_view_version_metadata: bool = False,
    ) -> None:
        """Adds the features of each view to a response.

        Feast's own method makes several objects for each value, which takes longer than the read.
        """
        for view, wanted in grouped_refs:
            unique, places, count = utils._get_unique_entities(
                view, join_key_values, entity_name_to_join_key_map
            )
            keys = _keys(config, utils._get_entity_key_protos(unique))
            features = self._features_of(view, wanted)
            add = _add_few if len(keys) <= _FEW_KEYS else _add_many
            missing = self._on_table(
                config,
                view,
                partial(add, online_features_response, keys, features, places, count),
            )
            _name_features(
                online_features_response.metadata,
                view,
                wanted,
                full_feature_names,
                include_feature_view_version_metadata,
            )
            _count_features(view.name, len(wanted) * count, len(wanted) * missing)

    def _features_of(self, view: FeatureView, wanted: list[str] | None) -> list[_Feature]:
        """The features to read. Views are immutable between two updates of the registry."""
        key = view.name, view.last_updated_timestamp, None if wanted is None else tuple(wanted)
        cached = self._features.get(key)
        if cached is None or cached[0] is not view:
            if len(self._features) >= _MOST_REQUESTS:
                self._features = {}
            cached = self._features[key] = (view, _features(view, wanted))
        return cached[1]

    # ---- writing

    def online_write_batch(
        self,
        config: RepoConfig,
        table: FeatureView,
        data: list[tuple[EntityKey, dict[str, Any], datetime, datetime | None]],
        progress: Callable[[int], Any] | None,
    ) -> None:
        """Writes the rows whose event time is not before that of the existing row."""
        features = _features(table, None)
        newest: dict[bytes, dict[str, Any]] = {}
        for key, (_, values, time, created) in zip(
            _keys(config, [row[0] for row in data]), data, strict=True
        ):
            row: dict[str, Any] = {KEY: key, EVENT_TIME: _utc(time), CREATED: _utc(created)}
            if key in newest and row[EVENT_TIME] < newest[key][EVENT_TIME]:
                continue
            for feature in features:
                value = values.get(feature.name)
                row[feature.name] = None if value is None else feature.to_column(value)
            newest[key] = row

        def write(opened: Any) -> None:
            # The features of one event replace all features of the older one. The table may have
            # columns of features that this view does not have.
            schema = _schema(features)
            others = [field for field in opened.schema if field.name not in schema.names]
            rows = pa.Table.from_pylist([*newest.values()], schema=pa.schema([*schema, *others]))
            (
                opened.merge(rows)
                .when_matched(update=True, condition=f"source.{EVENT_TIME} >= target.{EVENT_TIME}")
                .when_not_matched(insert=True)
                .execute()
            )

        if newest:
            self._on_table(config, table, write, to_write=True)
        if progress is not None:
            progress(len(data))

    def update(
        self,
        config: RepoConfig,
        tables_to_delete: Sequence[FeatureView],
        tables_to_keep: Sequence[FeatureView],
        entities_to_delete: Sequence[Entity],
        entities_to_keep: Sequence[Entity],
        partial: bool,
    ) -> None:
        """Creates the tables of views, adds columns of new features, and drops other tables."""
        lake = self._lake(config, to_write=True)
        for view in tables_to_keep:
            features = _features(view, None)
            name = _name(config, view)
            if name not in _names_of(lake, config):
                # Another process may create the table now.
                lake.create_table(
                    name,
                    _schema(features),
                    primary_key=[KEY],
                    cluster_by=[KEY],
                    if_exists="ignore",
                )
            opened = self._on_table(config, view, lambda opened: opened, to_write=True)
            _add_columns(opened, features)
            for feature in features:
                held = opened.schema.field(feature.name).type
                if held != feature.type:
                    raise InvalidArgumentError(
                        f"feature {view.name}:{feature.name} has another type than its column "
                        f"({held}); give it another name, or tear the view down"
                    )
        self._drop(config, tables_to_delete)

    def teardown(
        self, config: RepoConfig, tables: Sequence[FeatureView], entities: Sequence[Entity]
    ) -> None:
        """Drops the tables of these views with their files."""
        self._drop(config, tables)

    def _drop(self, config: RepoConfig, views: Sequence[FeatureView]) -> None:
        lake = self._lake(config, to_write=True)
        for view in views:
            name = _name(config, view)
            self._forget(config, view)
            if name in _names_of(lake, config):
                lake.drop_table(name, purge=True)

    def _forget(self, config: RepoConfig, view: FeatureView) -> None:
        with self._lock:
            self._tables.pop((config.online_store.path, _name(config, view)), None)

    # ---- tables

    def _lake(self, config: RepoConfig, *, to_write: bool = False) -> Any:
        place = config.online_store.path
        is_server = place.startswith(("nimble://", "nimble+unix://"))
        if is_server and to_write:
            raise InvalidArgumentError(
                f"{place}: a server only reads; write with the path of its lake"
            )
        if not is_server and "://" not in place and config.repo_path is not None:
            place = str(config.repo_path / place)
        with self._lock:
            lake = self._lakes.get((place, config.online_store.token))
            if lake is None:
                lake = (
                    connect(place, token=config.online_store.token) if is_server else connect(place)
                )
                self._lakes[place, config.online_store.token] = lake
            return lake

    def _on_table(
        self,
        config: RepoConfig,
        view: FeatureView,
        action: Callable[[Any], Answer],
        *,
        to_write: bool = False,
    ) -> Answer:
        """Calls ``action`` with the table of a view. Opens the table again if another process
        dropped it and created it anew.
        """
        try:
            return action(self._opened(config, view, to_write=to_write))
        except (ConflictError, FileNotFoundError, StaleFileError) as error:
            if isinstance(error, ConflictError) and error.kind != "table":
                raise
            self._forget(config, view)
        return action(self._opened(config, view, to_write=to_write))

    def _opened(self, config: RepoConfig, view: FeatureView, *, to_write: bool = False) -> Any:
        """The table of a view, with a snapshot that is new enough."""
        lake, name = self._lake(config, to_write=to_write), _name(config, view)
        key = config.online_store.path, name
        with self._lock:
            opened = self._tables.get(key)
            if opened is None:
                is_server = not hasattr(lake, "create_table")
                opened = lake.table(_table_name(config, view) if is_server else name)
                self._tables[key] = opened
                return opened
        if hasattr(opened, "upsert"):  # the snapshot of a server moves by itself
            opened.refresh(if_older_than=0.0 if to_write else config.online_store.refresh_seconds)
        return opened


def _name(config: RepoConfig, view: FeatureView) -> str:
    return f"{config.online_store.namespace}.{_table_name(config, view)}"


def _table_name(config: RepoConfig, view: FeatureView) -> str:
    """Returns the name of a view's table. Different views have different names."""

    def escaped(place: int, char: str) -> str:
        # The first single underscore ends the project's name.
        ends = (place == 0 and char == "_") or (place == len(view.name) - 1 and char == " ")
        if char.isprintable() and char not in "%./\\" and not ends:
            return char
        return "".join(f"%{byte:02X}" for byte in char.encode())

    name = "".join(escaped(place, char) for place, char in enumerate(view.name))
    return f"{config.project.replace('_', '__')}_{name}"


def _read(opened: Any, keys: Sequence[bytes], columns: Sequence[str]) -> list[Sequence[Any] | None]:
    """Returns the values of the columns for each key."""
    if len(keys) <= _FEW_KEYS:
        single = [opened.get(key, columns) for key in keys]
        return [None if row is None else [row[name] for name in columns] for row in single]
    read = opened.lookup(pa.array(keys, pa.binary()), columns=columns, missing="null")
    return [*zip(*(read[name].to_pylist() for name in columns), strict=True)]


def _add_few(
    response: Any,
    keys: Sequence[bytes],
    features: Sequence[_Feature],
    places: Sequence[Sequence[int]],
    count: int,
    opened: Any,
) -> int:
    """Adds the features of a few entities to a response. Returns how many entities are missing.

    Args:
        places: the places of each key's entity in the response.
        count: the number of places.
    """
    read = _read(opened, keys, [EVENT_TIME, *(feature.name for feature in features)])
    rows: list[Sequence[Any] | None] = [None] * count
    for row, destinations in zip(read, places, strict=True):
        for place in destinations:
            rows[place] = None if row is None or row[0] is None else row
    others = _statuses_and_times([None if row is None else _microseconds(row[0]) for row in rows])
    for number, feature in enumerate(features, 1):
        vector = response.results.add()
        for row in rows:
            value = vector.values.add()
            if row is not None:
                feature.fill(value, row[number])
        vector.MergeFromString(others)
    return rows.count(None)


def _add_many(
    response: Any,
    keys: Sequence[bytes],
    features: Sequence[_Feature],
    places: Sequence[Sequence[int]],
    count: int,
    opened: Any,
) -> int:
    """Does the same for many entities. The core writes the bytes of the response's messages."""
    columns = [EVENT_TIME, *(feature.name for feature in features)]
    read = opened.lookup(pa.array(keys, pa.binary()), columns=columns, probe_row=KEY)
    read = read.combine_chunks()
    times = read[EVENT_TIME].cast(pa.int64()).to_pylist()
    rows: list[int] = [-1] * count
    for row, entity in enumerate(read[KEY].to_pylist()):
        for place in places[entity]:
            rows[place] = row
    values = read.drop_columns([KEY, EVENT_TIME])
    # More than one batch if a column of text exceeds 2 GiB: then pyarrow raises here.
    batches = values.to_batches() or [pa.RecordBatch.from_pylist([], values.schema)]
    batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    response.MergeFromString(
        _core.feature_vectors(
            batch,
            [feature.number for feature in features],
            rows,
            _statuses_and_times([None if row < 0 else times[row] for row in rows]),
        )
    )
    return rows.count(-1)


def _statuses_and_times(times: Sequence[int | None]) -> bytes:
    """The statuses and event times of a feature vector, which all features of a view share.

    Args:
        times: in microseconds; ``None`` for a missing entity.
    """
    vector = GetOnlineFeaturesResponse.FeatureVector()
    for time in times:
        vector.statuses.append(FieldStatus.NOT_FOUND if time is None else FieldStatus.PRESENT)
        stamp = vector.event_timestamps.add()
        if time is not None:
            stamp.seconds, stamp.nanos = time // 1_000_000, time % 1_000_000 * 1000
    held: bytes = vector.SerializeToString()
    return held


def _microseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)


def _name_features(
    metadata: Any, view: FeatureView, names: Sequence[str], is_full: bool, has_version: bool
) -> None:
    """Adds the names of features to the metadata of a response, as Feast does."""
    projection = view.projection
    prefix = f"{projection.name_to_use()}__" if is_full else ""
    metadata.feature_names.val.extend([prefix + name for name in names])
    if has_version:
        name = projection.name_alias or projection.name
        if all(added.name != name for added in metadata.feature_view_metadata):
            added = metadata.feature_view_metadata.add()
            added.name = name
            added.version = getattr(view, "current_version_number", 0) or 0


def _count_features(view: str, count: int, missing: int) -> None:
    """Counts the features of a response in Feast's metrics, if this version has them."""
    with contextlib.suppress(Exception):
        from feast.metrics import track_feature_statuses

        track_feature_statuses(view, count - missing, missing)


def _add_columns(opened: Any, features: Sequence[_Feature]) -> None:
    """Adds the columns of new features, which other processes may add at the same time."""
    missing = [feature for feature in features if feature.name not in opened.schema.names]
    while missing:
        try:
            with opened.alter() as change:
                for feature in missing:
                    change.add_column(feature.name, feature.type)
            return
        except (ConflictError, InvalidArgumentError):
            opened.refresh()
            left = [feature for feature in missing if feature.name not in opened.schema.names]
            if len(left) == len(missing):
                raise
            missing = left


def _names_of(lake: Any, config: RepoConfig) -> list[str]:
    namespace = config.online_store.namespace
    return list(lake.tables(namespace)) if namespace in lake.namespaces() else []


def _features(view: FeatureView, wanted: Sequence[str] | None) -> list[_Feature]:
    features = {field.name: field.dtype.to_value_type() for field in view.features}
    for name in features if wanted is None else wanted:
        if name not in features or name in _OWN:
            raise InvalidArgumentError(f"feature view {view.name} cannot have a feature {name!r}")
    return [_Feature(name, features[name]) for name in (features if wanted is None else wanted)]


def _schema(features: Sequence[_Feature]) -> pa.Schema:
    own = [
        pa.field(KEY, pa.binary(), nullable=False),
        pa.field(EVENT_TIME, _TIME, nullable=False),
        pa.field(CREATED, _TIME),
    ]
    return pa.schema([*own, *(pa.field(feature.name, feature.type) for feature in features)])


def _keys(config: RepoConfig, entity_keys: Sequence[EntityKey]) -> list[bytes]:
    version = config.entity_key_serialization_version
    return [
        serialize_entity_key(key, entity_key_serialization_version=version) for key in entity_keys
    ]


def _utc(time: datetime | None) -> datetime | None:
    """Feast gives times in UTC, with or without a zone."""
    if time is None or time.tzinfo is None:
        return None if time is None else time.replace(tzinfo=UTC)
    return time.astimezone(UTC)
