"""Encodes the Avro records of manifests. The record schema depends on the partition spec."""

from __future__ import annotations

import io
import json
from itertools import chain, count
from typing import Any, Literal, cast

from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.resolver import resolve_writer
from pyiceberg.manifest import DataFile as IceDataFile
from pyiceberg.manifest import (
    DataFileContent,
    ManifestEntry,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField, StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from nimblepy.table.base.model import (
    Content,
    DataFile,
)
from nimblepy.table.iceberg.avro import encoded_bytes, encoded_long
from nimblepy.table.iceberg.version3 import with_variants

# The field id of the partition values.
_PARTITION = 102
# Places in the record of a data file: the first field that may be null, the data file of a vector,
# and the offset of the vector.
_FIRST_OPTIONAL, _VECTOR, _OFFSET = 6, 17, 18
# The attribute that keeps the encoded file of a vector, and the form that encoded it.
_ENCODED = "nimblepy_encoded"
# The branches of an optional field in Avro.
_NULL, _VALUE = b"\x00", b"\x02"

CONTENTS: dict[Any, Content] = {
    DataFileContent.DATA: "data",
    DataFileContent.POSITION_DELETES: "position deletes",
    DataFileContent.EQUALITY_DELETES: "equality deletes",
}


_CONTENT_OF = {name: value for value, name in CONTENTS.items()}


# Records in memory have the fields of this format version, whatever version a file has. Those of
# earlier versions come first.
RECORD_VERSION: Literal[3] = 3


def ice_file(item: DataFile) -> IceDataFile:
    vector, metrics = item.vector, item.metrics
    made = IceDataFile.from_args(
        _table_format_version=RECORD_VERSION,
        content=_CONTENT_OF[item.content],
        file_path=item.path,
        file_format=item.format,
        partition=Record(*item.partition),
        record_count=item.rows,
        file_size_in_bytes=item.bytes,
        column_sizes=None if vector else dict(metrics.column_bytes),
        value_counts=None if vector else dict(metrics.values),
        null_value_counts=None if vector else dict(metrics.nulls),
        nan_value_counts=None if vector else dict(metrics.nans),
        lower_bounds=None if vector else dict(metrics.lower),
        upper_bounds=None if vector else dict(metrics.upper),
        key_metadata=None,
        split_offsets=None,
        equality_ids=list(item.equality_ids) or None,
        sort_order_id=item.sort_order_id,
        first_row_id=item.first_row_id,
        referenced_data_file=None if vector is None else vector.data_file,
        content_offset=None if vector is None else vector.offset,
        content_size_in_bytes=None if vector is None else vector.size,
    )
    made.spec_id = item.spec_id
    return made


class Records:
    """Encodes records of one Avro schema as pyiceberg does, without its expensive set-up for each
    file.
    """

    def __init__(self, name: str, file_schema: Schema, record_schema: Schema) -> None:
        self._writer = resolve_writer(record_schema=record_schema, file_schema=file_schema)
        schema = AvroSchemaConversion().iceberg_to_avro(file_schema, name)
        self.schema = json.dumps(_with_own_names(schema, set()))

    def encode(self, record: Any) -> bytes:
        octets = io.BytesIO()
        self._writer.write(BinaryEncoder(octets), record)
        return octets.getvalue()


def _with_own_names(schema: Any, used: set[str]) -> Any:
    """Returns an Avro schema in which every named type has a different name.

    Avro allows a name to be defined only once. pyiceberg gives equal names to equal decimals, UUIDs
    and fixed types, and cannot read references to names.
    """
    if isinstance(schema, list):
        return [_with_own_names(item, used) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = dict(schema)
    if made.get("type") == "fixed":
        others = (f"{made['name']}_{i}" for i in count(2))
        made["name"] = next(name for name in chain([made["name"]], others) if name not in used)
        used.add(made["name"])
    for inner in ("type", "items", "values", "fields"):
        if inner in made:
            made[inner] = _with_own_names(made[inner], used)
    return made


def _partition_type(spec: PartitionSpec, schema: Schema) -> StructType:
    """Returns the partition values of a spec, all of them nullable.

    pyiceberg makes the value of a required column required. But the value is missing if the column
    is a member of an optional struct that is null.
    """
    fields = spec.partition_type(schema).fields
    return StructType(*(NestedField(f.field_id, f.name, f.field_type) for f in fields))


class ManifestForm:
    """How manifests of one schema and partition spec are written."""

    def __init__(
        self, schema: Schema, sources: Schema, spec: PartitionSpec, version: Literal[2, 3]
    ) -> None:
        """Makes a form.

        Args:
            sources: all columns of the spec, including dropped columns.
            version: the format version of the table.
        """
        self.spec = spec
        self.schema = schema
        partition = _partition_type(spec, sources)
        written, read = (
            manifest_entry_schema_with_data_file(
                number, data_file_with_partition(partition, number)
            )
            for number in (version, RECORD_VERSION)
        )
        self.records = Records("manifest_entry", written, read)
        self._has_vectors = version == RECORD_VERSION
        fields = cast(StructType, written.find_field(_PARTITION).field_type).fields
        self._partitions = Records("partition", Schema(*fields), Schema(*fields))
        self.header = {
            "schema": with_variants(schema.model_dump_json()),
            "partition-spec": json.dumps([item.model_dump(mode="json") for item in spec.fields]),
            "partition-spec-id": str(spec.spec_id),
            "format-version": str(version),
        }

    def encode(self, entry: ManifestEntry) -> bytes:
        """Encodes an entry of a manifest.

        Deletion vectors are encoded here: an upsert lists one for each data file that it touches,
        and the library takes 0.1 ms for each.
        """
        file = entry.data_file
        # A later commit lists the same vector as removed.
        form, octets = getattr(file, _ENCODED, (None, b""))
        if form is not self:
            is_vector = self._has_vectors and file[_OFFSET] is not None
            if not is_vector or any(file[i] for i in range(_FIRST_OPTIONAL, _VECTOR)):
                return self.records.encode(entry)
            octets = self._vector(file)
            setattr(file, _ENCODED, (self, octets))
        assigned = entry.snapshot_id, entry.sequence_number, entry.file_sequence_number
        parts = [_NULL if number is None else _VALUE + encoded_long(number) for number in assigned]
        return b"".join((encoded_long(int(entry.status)), *parts, octets))

    def _vector(self, file: IceDataFile) -> bytes:
        """Encodes the file of a deletion vector."""
        return b"".join(
            (
                encoded_long(int(file.content)),
                encoded_bytes(file.file_path.encode()),
                encoded_bytes(str(file.file_format).encode()),
                self._partitions.encode(file.partition) if len(file.partition) else b"",
                encoded_long(file.record_count),
                encoded_long(file.file_size_in_bytes),
                _NULL * (_VECTOR - _FIRST_OPTIONAL),
                _VALUE,
                encoded_bytes(file[_VECTOR].encode()),
                *(_VALUE + encoded_long(file[i]) for i in range(_OFFSET, len(file))),
            )
        )
