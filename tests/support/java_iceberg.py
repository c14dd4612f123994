"""Tables as Java's own library of Iceberg reads them, for tests.

Its jar comes from PyPI (``pip install snowpark-connect-deps-iceberg``), Hadoop's and Jackson's from
PySpark. The jar asks for Jackson by the names of Iceberg's own copy, which it does not have.
"""

from __future__ import annotations

import importlib.util
import shutil
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

JACKSON = "com/fasterxml"
RENAMED = "org/apache/iceberg/shaded/com/fasterxml"
# Bytes of the constants of a class file after their tags, but for texts.
SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4}


def missing() -> str | None:
    """Why Java cannot be asked; ``None``: it can."""
    if shutil.which("java") is None:
        return "no Java"
    for name in ("pyspark", "snowpark_connect_deps_iceberg"):
        if importlib.util.find_spec(name) is None:
            return f"{name} is not installed"
    return None


def _jars(package: str, pattern: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return sorted((Path(spec.origin).parent / "jars").glob(pattern))


def renamed(code: bytes) -> bytes:
    """A class file that calls Jackson by its other name: only texts among its constants change."""
    (count,) = struct.unpack_from(">H", code, 8)
    out, at, number = [code[:10]], 10, 1
    while number < count:
        tag = code[at]
        if tag == 1:
            (size,) = struct.unpack_from(">H", code, at + 1)
            text = code[at + 3 : at + 3 + size]
            for slash in (b"/", b"."):  # as names of classes, and as texts
                old, new = (name.encode().replace(b"/", slash) for name in (JACKSON, RENAMED))
                text = text.replace(old, new)
            out.append(b"\x01" + struct.pack(">H", len(text)) + text)
            at += 3 + size
        else:
            size = SIZES[tag]
            out.append(code[at : at + 1 + size])
            at += 1 + size
        number += 2 if tag in (5, 6) else 1  # long and double count twice
    return b"".join([*out, code[at:]])


def write_jackson(path: Path) -> None:
    names = ("jackson-annotations", "jackson-core", "jackson-databind")
    with zipfile.ZipFile(path, "w") as out:
        for jar in (found for name in names for found in _jars("pyspark", f"{name}-*.jar")):
            with zipfile.ZipFile(jar) as source:
                for entry in source.namelist():
                    if entry.startswith(JACKSON) and entry.endswith(".class"):
                        name = RENAMED + entry.removeprefix(JACKSON)
                        out.writestr(name, renamed(source.read(entry)))


@contextmanager
def java(folder: Path) -> Iterator[Any]:
    """A JVM with Iceberg's classes; ``folder`` is for files that it needs."""
    from py4j.java_gateway import JavaGateway

    jackson = folder / "jackson.jar"
    write_jackson(jackson)
    spark = _jars("pyspark", "*.jar")
    (py4j,) = (jar for jar in spark if jar.name.startswith("py4j"))
    iceberg = _jars("snowpark_connect_deps_iceberg", "iceberg-spark-runtime-*_2.13-*.jar")
    gateway = JavaGateway.launch_gateway(
        jarpath=str(py4j),
        classpath=":".join(map(str, [jackson, *iceberg, *spark])),
        die_on_exit=True,
    )
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()


def rows_of(jvm: Any, metadata_file: str, columns: list[str]) -> list[tuple[Any, ...]]:
    """All rows of the newest snapshot, in any order. Columns may be those of row lineage."""
    apache = jvm.org.apache
    files = apache.iceberg.hadoop.HadoopFileIO(apache.hadoop.conf.Configuration())
    operations = apache.iceberg.StaticTableOperations(metadata_file, files)
    table = apache.iceberg.BaseTable(operations, metadata_file)
    found = []
    constants = apache.iceberg.MetadataColumns
    lineage = {c.name(): c for c in (constants.ROW_ID, constants.LAST_UPDATED_SEQUENCE_NUMBER)}
    fields = jvm.java.util.ArrayList()
    for name in columns:
        fields.append(table.schema().findField(name) or lineage[name])
    schema = apache.iceberg.Schema(fields)
    rows = apache.iceberg.data.IcebergGenerics.read(table).project(schema).build()
    try:
        each = rows.iterator()
        while each.hasNext():
            row = each.next()
            found.append(tuple(row.getField(name) for name in columns))
    finally:
        rows.close()
    return found


class JavaTable:
    """A table that Java writes, with its metadata below a folder."""

    def __init__(self, jvm: Any, folder: Path, schema: Any, spec: Any, version: int = 2) -> None:
        self.jvm = jvm
        self.apache = jvm.org.apache.iceberg
        self.folder = folder
        tables = self.apache.hadoop.HadoopTables(jvm.org.apache.hadoop.conf.Configuration())
        properties = jvm.java.util.HashMap()
        properties.put("format-version", str(version))
        self.table = tables.create(schema, spec, properties, str(folder))
        self.files = 0

    @property
    def metadata_file(self) -> str:
        return str(self.table.operations().current().metadataFileLocation())

    def _output(self) -> Any:
        self.files += 1
        output = self.table.io().newOutputFile(f"{self.folder}/data/{self.files}.parquet")
        return self.apache.encryption.EncryptedFiles.plainAsEncryptedOutput(output)

    def _records(self, schema: Any, rows: list[dict[str, Any]]) -> list[Any]:
        """``rows`` have Java's values by the names of the columns."""
        records = []
        for row in rows:
            record = self.apache.data.GenericRecord.create(schema)
            for name, value in row.items():
                record.setField(name, value)
            records.append(record)
        return records

    def data_file(self, rows: list[dict[str, Any]], partition: Any = None) -> Any:
        schema, spec = self.table.schema(), self.table.spec()
        factory = self.apache.data.GenericAppenderFactory(schema, spec)
        writer = factory.newDataWriter(self._output(), self.apache.FileFormat.PARQUET, partition)
        for record in self._records(schema, rows):
            writer.write(record)
        writer.close()
        return writer.toDataFile()

    def equality_delete_file(
        self, names: list[str], rows: list[dict[str, Any]], partition: Any = None
    ) -> Any:
        selected = self.jvm.java.util.ArrayList()
        for name in names:
            selected.append(name)
        schema = self.table.schema().select(selected)
        numbers = [self.table.schema().findField(name).fieldId() for name in names]
        ids = self.jvm.java.lang.reflect.Array.newInstance(
            self.jvm.java.lang.Integer.TYPE, len(numbers)
        )
        for i, number in enumerate(numbers):
            ids[i] = number
        factory = self.apache.data.GenericAppenderFactory(
            self.table.schema(), self.table.spec(), ids, schema, None
        )
        writer = factory.newEqDeleteWriter(
            self._output(), self.apache.FileFormat.PARQUET, partition
        )
        for record in self._records(schema, rows):
            writer.write(record)
        writer.close()
        return writer.toDeleteFile()

    def commit(self, data: list[Any], deletes: list[Any]) -> None:
        change = self.table.newRowDelta()
        for file in data:
            change.addRows(file)
        for file in deletes:
            change.addDeletes(file)
        change.commit()

    def vectors(self, deleted: dict[str, list[int]], before: dict[str, list[int]]) -> list[Any]:
        """Deletion vectors of data files, all in one Puffin file.

        Args:
            before: rows of the vectors that they replace.
        """
        iceberg = self.apache
        builder = iceberg.io.OutputFileFactory.builderFor(self.table, 1, 1)
        factory = builder.format(iceberg.FileFormat.PUFFIN).build()
        # A function that returns null: no vector is loaded to be extended.
        nothing = self.jvm.scala.collection.immutable.HashMap().withDefaultValue(None)
        wrapper = getattr(self.jvm.scala.jdk, "FunctionWrappers$AsJavaFunction")
        writer = iceberg.deletes.BaseDVFileWriter(factory, wrapper(nothing))
        for path, rows in deleted.items():
            for row in (*before.get(path, ()), *rows):
                writer.delete(path, row, self.table.spec(), None)
        writer.close()
        return list(writer.result().deleteFiles())

    def replace(self, new: list[Any], old: list[Any]) -> None:
        """Commits deletion vectors in place of others."""
        snapshot = self.table.currentSnapshot().snapshotId()
        change = self.table.newRowDelta().validateFromSnapshot(snapshot)
        for file in new:
            change.addDeletes(file)
        for file in old:
            change.removeDeletes(file)
        change.commit()
