"""What the metadata of a table says, as plain values: nothing in here knows pyiceberg."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Content: TypeAlias = Literal["data", "position deletes", "equality deletes"]
DataFormat: TypeAlias = Literal["nimble", "parquet"]

# How each format is called in manifests. NIMBLEPY is nobody else's name: readers that do not know
# it fail instead of reading bytes that they would misunderstand.
FILE_FORMATS: dict[DataFormat, str] = {"nimble": "NIMBLEPY", "parquet": "PARQUET"}
SUFFIXES: dict[DataFormat, str] = {"nimble": ".nimble", "parquet": ".parquet"}

# Properties of a table that ask for more history than is kept by default.
MIN_SNAPSHOTS = "history.expire.min-snapshots-to-keep"
MAX_AGE = "history.expire.max-snapshot-age-ms"
# In the summary of a snapshot: where its plan index lies.
PLAN_INDEX = "nimblepy.plan-index"
# What the summary of a snapshot calls a batch that is added once, before its name.
BATCH_PREFIX = "nimblepy.batch."

# Field ids that Iceberg reserves for the columns of a position delete file.
DELETED_PATH_ID = 2147483546
DELETED_POSITION_ID = 2147483545


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """What is known of the columns of one file, by field id.

    Attributes:
        lower, upper: bounds as Iceberg's single-value serialization; a text may be cut.
    """

    values: Mapping[int, int] = field(default_factory=dict)
    nulls: Mapping[int, int] = field(default_factory=dict)
    nans: Mapping[int, int] = field(default_factory=dict)
    lower: Mapping[int, bytes] = field(default_factory=dict)
    upper: Mapping[int, bytes] = field(default_factory=dict)
    column_bytes: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cube:
    """Rows of one cube of a tree in a file.

    Attributes:
        bits, prefix: the cube: how many leading bits the places of its rows share, and which.
        least, most: weights of the rows, both included.
    """

    bits: int
    prefix: int
    least: int
    most: int
    rows: int


@dataclass(frozen=True, slots=True)
class FileCubes:
    """The cubes of a file.

    Attributes:
        space: how values become places, as ``Space.to_json`` has it.
    """

    space: str
    cubes: tuple[Cube, ...]

    def to_json(self) -> str:
        """For the footer of the file."""
        cubes = [[c.bits, c.prefix, c.least, c.most, c.rows] for c in self.cubes]
        return json.dumps({"space": self.space, "cubes": cubes})

    @classmethod
    def from_json(cls, text: str | bytes) -> FileCubes:
        """The cubes of a footer.

        Raises:
            ValueError, TypeError, KeyError: it has none.
        """
        found = json.loads(text)
        return cls(str(found["space"]), tuple(Cube(*map(int, c)) for c in found["cubes"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A file with rows, or with positions of deleted rows, as a manifest lists it.

    It pickles: a process that writes files sends these to the one that commits.

    Attributes:
        path: absolute path or URI.
        format: as manifests call it, ``NIMBLEPY`` or ``PARQUET``.
        partition: values of the partition fields of the spec, as Iceberg stores them.
        cubes: of a new file, those that an OTree put into it; manifests do not have them.
    """

    path: str
    format: str
    rows: int
    bytes: int
    content: Content = "data"
    spec_id: int = 0
    partition: tuple[Any, ...] = ()
    metrics: Metrics = field(default_factory=Metrics)
    sort_order_id: int | None = None
    cubes: FileCubes | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A live file of a snapshot.

    Attributes:
        file: what the manifest says of it.
        sequence: commit order of the snapshot that added it.
        manifest: path of the manifest that lists it.
        raw: the entry as pyiceberg has it, of those that it has read.
    """

    file: DataFile
    sequence: int
    manifest: str
    raw: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class Manifest:
    """A list of files, as the manifest list of a snapshot names it.

    Attributes:
        files, rows: of those that are live; -1 if the manifest list does not say it.
        removed: whether it still describes files that were removed.
        bytes: of the manifest itself.
    """

    path: str
    deletes: bool
    spec_id: int
    files: int
    rows: int
    removed: bool
    sequence: int
    bytes: int
    raw: Any


# Of a number that 64 bits hold, with its sign.
_MOST_DIGITS = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One committed state of a table.

    Attributes:
        timestamp_ms: milliseconds since 1970.
        summary: the figures of its commit, as Iceberg names them.
    """

    id: int
    parent: int | None
    sequence: int
    timestamp_ms: int
    operation: str
    summary: Mapping[str, str]
    schema_id: int | None
    manifest_list: str

    def figure(self, name: str) -> int | None:
        """A number of the summary; ``None``: it does not have it, or what it has is none."""
        text = self.summary.get(name, "")
        return int(text) if text.isdecimal() and len(text) < _MOST_DIGITS else None


@dataclass(frozen=True, slots=True)
class Distinct:
    """About how many different values a column had.

    Attributes:
        snapshot: id of the snapshot that was looked at.
    """

    values: int
    snapshot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionField:
    """One field of a partition spec: a transform of a column.

    Attributes:
        source_id: field id of the column.
        transform: as Iceberg writes it: ``identity``, ``bucket[16]``, ``day``, ...
    """

    source_id: int
    field_id: int
    name: str
    transform: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A tag or a branch.

    Attributes:
        least_snapshots, snapshot_age_ms: how many of a branch stay at least, and how long;
            ``None``: as the table's properties say.
        age_ms: how long it stays itself; ``None``: for ever.
    """

    snapshot: int
    kind: Literal["tag", "branch"]
    least_snapshots: int | None = None
    snapshot_age_ms: int | None = None
    age_ms: int | None = None
