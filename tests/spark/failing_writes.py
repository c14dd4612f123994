"""Run by test_failing_writes.py in a process of its own: writes whose tasks fail, dawdle and die.

python failing_writes.py DIRECTORY

A real cluster of two hosts, 127.0.0.2 and 127.0.0.3: Spark speculates no task on the host where it
runs already, so one of ``local-cluster`` would never do it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest

import nimblepy as nb
from conftest import builder

ROWS = 8000
OLD = [-3, -2, -1]
NEW = list(range(ROWS))
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.cores.max": "2",
    "spark.task.maxFailures": "2",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.minTaskRuntime": "200ms",
    "spark.speculation.quantile": "0.5",
    "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
    # A part is 20 batches of 100 rows, and they arrive as they are sent.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
    "spark.buffer.size": "4096",
}


class Cluster:
    """A master and two workers, each with one core and an address of its own."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        self.url = f"spark://127.0.0.1:{port}"
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._start(folder, "master.Master", "--host", "127.0.0.1", "--port", str(port))
        for host in ("127.0.0.2", "127.0.0.3"):
            small = ["--cores", "1", "--memory", "600m", "--work-dir", str(folder / host)]
            self._start(folder, "worker.Worker", "--host", host, *small, self.url)

    def _start(self, folder: Path, name: str, *arguments: str) -> None:
        home = pyspark.__path__[0]
        command = [f"{home}/bin/spark-class", f"org.apache.spark.deploy.{name}", *arguments]
        environment = {**os.environ, "SPARK_HOME": home, "SPARK_DAEMON_MEMORY": "128m"}
        environment.pop("SPARK_LOCAL_IP", None)
        environment |= {"SPARK_MASTER_WEBUI_PORT": "0", "SPARK_WORKER_WEBUI_PORT": "0"}
        environment["SPARK_DAEMON_JAVA_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        with open(folder / f"{name}.log", "ab") as log:
            self._daemons.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))

    def stop(self) -> None:
        for daemon in self._daemons:
            daemon.terminate()
        for daemon in self._daemons:
            daemon.wait(30)


class Watch:
    """A reader beside the write: sees the old data, the new, or both while files are renamed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._done = threading.Event()
        self.seen: set[str] = set()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        assert self.seen <= {"old", "both", "new"}, self.seen

    def _look(self) -> None:
        while not self._done.wait(0.02):
            try:
                rows = keys(self._directory)
            except FileNotFoundError:  # the overwrite has removed a file
                continue
            both = "both" if set(OLD) <= set(rows) <= {*OLD, *NEW} else f"{len(rows)} rows"
            self.seen.add({str(OLD): "old", str(NEW): "new"}.get(str(rows), both))


def keys(directory: Path) -> list[int]:
    found: list[int] = nb.open_dataset(directory).to_table(["k"]).column("k").to_pylist()
    return sorted(found)


def misbehaving(directory: str, trouble: Callable[[int], None], always: bool) -> Any:
    """A function for ``mapInArrow`` with trouble while partition 0 is being written.

    Args:
        trouble: gets the process that writes what this task sends.
        always: not just in the attempt that comes first, whatever its number.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        part, attempt = context.partitionId(), context.attemptNumber()
        open(f"{directory}.attempts/{part}-{attempt}", "w").close()
        for i, batch in enumerate(batches):
            yield batch
            if i == 14 and part == 0:
                writer = writing_process(f"{directory}/_temporary/", context.taskAttemptId())
                try:
                    open(f"{directory}.attempts/trouble", "x").close()
                except FileExistsError:
                    if not always:
                        continue
                trouble(writer)

    return run


def writing_process(staging: str, attempt: int) -> int:
    """The Python worker that has this task's staged file open."""
    import glob

    end = time.monotonic() + 60
    while time.monotonic() < end:
        for link in glob.glob("/proc/[0-9]*/fd/*"):
            try:
                target = os.readlink(link)
            except OSError:
                continue
            if target.startswith(staging) and f"00000-{attempt}-" in target:
                return int(link.split("/")[2])
        time.sleep(0.01)
    raise RuntimeError("no worker writes")


def raises(_: int) -> None:
    raise RuntimeError("the first attempt fails")


def dawdles(_: int) -> None:
    time.sleep(200)  # the test would fail for time if nobody took over


def kills(writer: int) -> None:
    os.kill(writer, signal.SIGKILL)


def write(
    spark: Any, directory: Path, trouble: Callable[[int], None], *, always: bool = False
) -> list[str]:
    """Overwrites the dataset; returns the attempts at partition 0. Raises what Spark raises."""
    attempts = Path(f"{directory}.attempts")
    attempts.mkdir()
    frame = spark.range(0, ROWS, 1, 4).withColumnRenamed("id", "k")
    frame = frame.mapInArrow(misbehaving(str(directory), trouble, always), "k long")
    try:
        writer = frame.write.format("nimble").option("cluster_by", "k").mode("overwrite")
        writer.save(str(directory))
    finally:
        assert (attempts / "trouble").exists()
        tried = [name for name in os.listdir(attempts) if name.startswith("0-")]
    return tried


def fresh(folder: Path, name: str) -> Path:
    from pyspark.sql.types import LongType, StructField, StructType

    from nimblepy.spark.writing.write import NimbleWriter

    directory = folder / name
    schema = StructType([StructField("k", LongType())])
    job = NimbleWriter(schema, {"path": str(directory), "cluster_by": "k"}, True)
    job.commit([job.write(iter([pa.record_batch({"k": pa.array(OLD)})]))])
    return directory


def left(directory: Path) -> list[str]:
    """What jobs have left behind."""
    return [name for name in os.listdir(directory) if not name.endswith(".nimble")]


def check(spark: Any, directory: Path, trouble: Callable[[int], None]) -> None:
    """One write that goes wrong and is saved by another attempt."""
    with Watch(directory) as watch:
        tried = write(spark, directory, trouble)
        assert keys(directory) == NEW
    assert "old" in watch.seen
    assert len(tried) > 1, tried
    assert left(directory) == [], left(directory)
    assert len(nb.open_dataset(directory).paths) == 4
    print(f"{directory.name}: {tried}", flush=True)


def check_job_that_dies(spark: Any, directory: Path) -> None:
    """Every attempt is killed: the job fails, and the old data stay."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    died = pytest.raises((PySparkException, Py4JJavaError))
    with Watch(directory) as watch, died:
        write(spark, directory, kills, always=True)
    assert watch.seen == {"old"}
    assert keys(directory) == OLD


def main(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    cluster = Cluster(folder)
    try:
        made = builder(cluster.url)
        for name, value in SETTINGS.items():
            made = made.config(name, value)
        spark = made.getOrCreate()
        check(spark, fresh(folder, "raises"), raises)
        check(spark, fresh(folder, "dawdles"), dawdles)
        check(spark, fresh(folder, "killed"), kills)
        check_job_that_dies(spark, fresh(folder, "dead"))
        spark.stop()
    finally:
        cluster.stop()
    print("all is well")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
