"""Defines the content of a table's metadata as plain values, independent of pyiceberg."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Content: TypeAlias = Literal["data", "position deletes", "equality deletes"]
DataFormat: TypeAlias = Literal["nimble", "parquet"]

# Names of the formats in manifests. Readers that do not know NIMBLEPY fail, instead of misreading
# the file.
FILE_FORMATS: dict[DataFormat, str] = {"nimble": "NIMBLEPY", "parquet": "PARQUET"}
SUFFIXES: dict[DataFormat, str] = {"nimble": ".nimble", "parquet": ".parquet"}

# Table properties that keep more history than the default.
MIN_SNAPSHOTS = "history.expire.min-snapshots-to-keep"
MAX_AGE = "history.expire.max-snapshot-age-ms"
# Table property that tells whether commits expire old snapshots ("true", the default, or "false").
EXPIRE_ON_COMMIT = "nimblepy.expire-on-commit"
# Table property with the description, which other engines also show.
COMMENT = "comment"
# Key in a snapshot's summary for the paths of its plan index.
PLAN_INDEX = "nimblepy.plan-index"
# Table property with the indexes of new files, by field id.
INDEXES = "nimblepy.indexes"
# Key in a snapshot's summary for the metrics of the table's vector indexes: "FIELD_ID:METRIC,...".
VECTOR_METRICS = "nimblepy.vector-metrics"
# Prefix of keys in a snapshot's summary that record batches, so that each is added once.
BATCH_PREFIX = "nimblepy.batch."
# Prefix of the properties that hold the claims about a table and its columns.
CLAIMS_PREFIX = "nimblepy.claims."
# The branch that a table shows unless another one is named.
MAIN = "main"

# Field ids that Iceberg reserves for the columns of a position delete file.
DELETED_PATH_ID = 2147483546
DELETED_POSITION_ID = 2147483545
# The field id of the position of a row in its file, which deletion vectors list.
ROW_POSITION_ID = 2147483645


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Statistics of the columns of one file, by field id.

    Attributes:
        lower, upper: bounds in Iceberg's single-value serialization; texts may be truncated.
    """

    values: Mapping[int, int] = field(default_factory=dict)
    nulls: Mapping[int, int] = field(default_factory=dict)
    nans: Mapping[int, int] = field(default_factory=dict)
    lower: Mapping[int, bytes] = field(default_factory=dict)
    upper: Mapping[int, bytes] = field(default_factory=dict)
    column_bytes: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cube:
    """The rows of one cube in a file.

    Attributes:
        bits, prefix: the cube: number and value of the leading bits that the places of its rows
            share.
        least, most: minimum and maximum weight of the rows.
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
        space: the mapping from values to places, as ``Space.to_json`` writes it.
    """

    space: str
    cubes: tuple[Cube, ...]

    def to_json(self) -> str:
        """Serializes the cubes for the footer of the file."""
        cubes = [[c.bits, c.prefix, c.least, c.most, c.rows] for c in self.cubes]
        return json.dumps({"space": self.space, "cubes": cubes})

    @classmethod
    def from_json(cls, text: str | bytes) -> FileCubes:
        """Parses the cubes of a footer.

        Raises:
            ValueError, TypeError, KeyError: the text has another format.
        """
        content = json.loads(text)
        return cls(str(content["space"]), tuple(Cube(*map(int, c)) for c in content["cubes"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """The place of a deletion vector in a Puffin file.

    Attributes:
        data_file: path of the data file whose rows it deletes.
        offset, size: of its bytes in the Puffin file.
    """

    data_file: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A data file or a delete file, as a manifest lists it.

    It can be pickled: a process that writes files sends these to the process that commits.

    Attributes:
        path: absolute path or URI.
        format: as in manifests, ``NIMBLEPY`` or ``PARQUET``.
        partition: values of the partition fields of the spec, as Iceberg stores them.
        equality_ids: field ids of the columns that an equality delete file compares.
        vector: the place of a deletion vector, in a file with the format ``PUFFIN``.
        first_row_id: the id of the first row, in a snapshot of format version 3.
        sequence: the sequence number that a copy of an older file keeps.
        cubes: the cubes of a new file in an OTree. Manifests do not have them.
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
    equality_ids: tuple[int, ...] = ()
    vector: Vector | None = None
    first_row_id: int | None = None
    sequence: int | None = None
    cubes: FileCubes | None = None

    @property
    def identity(self) -> str:
        """The path, with the offset of a deletion vector, because a file may have several."""
        return self.path if self.vector is None else f"{self.path}:{self.vector.offset}"


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A live file of a snapshot.

    Attributes:
        file: the file as the manifest describes it.
        sequence: sequence number of the snapshot that added it.
        manifest: path of the manifest that lists it.
        raw: the pyiceberg entry, if pyiceberg read it.
    """

    file: DataFile
    sequence: int
    manifest: str
    raw: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class Manifest:
    """A manifest, as the manifest list of a snapshot describes it.

    Attributes:
        files, rows: number of live files, and of their rows; -1 if the manifest list does not tell.
        removed: whether it also lists removed files.
        bytes: bytes of the manifest file.
        first_row_id: the first row id that its data files inherit, in format version 3.
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
    first_row_id: int | None = None


# Maximum digits of a 64-bit number with its sign.
_MOST_DIGITS = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One committed state of a table.

    Attributes:
        timestamp_ms: milliseconds since 1970.
        summary: counts of the commit, with Iceberg's names.
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
        """Returns a number of the summary; ``None`` if it is missing or not a number."""
        text = self.summary.get(name, "")
        return int(text) if text.isdecimal() and len(text) < _MOST_DIGITS else None


@dataclass(frozen=True, slots=True)
class Distinct:
    """An estimated distinct count of a column.

    Attributes:
        snapshot: id of the analyzed snapshot.
    """

    values: int
    snapshot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionField:
    """One field of a partition spec: a transform of a column.

    Attributes:
        source_id: field id of the column.
        transform: in Iceberg's notation: ``identity``, ``bucket[16]``, ``day``, ...
    """

    source_id: int
    field_id: int
    name: str
    transform: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A tag or a branch.

    Attributes:
        least_snapshots, snapshot_age_ms: minimum number of a branch's snapshots to keep, and how
            long to keep them; ``None`` uses the table properties.
        age_ms: maximum age of the reference; ``None`` keeps it for ever.
    """

    snapshot: int
    kind: Literal["tag", "branch"]
    least_snapshots: int | None = None
    snapshot_age_ms: int | None = None
    age_ms: int | None = None
