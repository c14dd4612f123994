"""Spans and counters, as OpenTelemetry's exporters in memory get them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy import telemetry

pytest.importorskip("pyiceberg")
pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

ROWS = pa.table({"k": range(10), "v": range(10)})


class Recorder:
    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader])

    def spans(self, name: str) -> list[dict[str, Any]]:
        spans = self.exporter.get_finished_spans()
        return [dict(span.attributes or {}) for span in spans if span.name == name]

    def total(self, name: str, **attributes: str) -> int:
        """The sum of a counter over the series that have these attributes."""
        wanted = {f"nimblepy.{key}": value for key, value in attributes.items()}.items()
        data: Any = self.reader.get_metrics_data()
        return sum(
            point.value
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == f"nimblepy.{name}"
            for point in metric.data.data_points
            if wanted <= dict(point.attributes).items()
        )


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    telemetry.enable(tracer_provider=recorder.tracers, meter_provider=recorder.meters)
    yield recorder
    telemetry.disable()


def test_commits_are_spans_and_counted(recorder: Recorder, lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", ROWS, primary_key="k")
    done = table.upsert(pa.table({"k": [9, 10], "v": [0, 0]}))
    table.tag("x")
    created, upsert, tag = recorder.spans("nimblepy.commit")
    assert created["nimblepy.operation"] == "create_table"
    assert created["nimblepy.rows_inserted"] == 10
    assert upsert["nimblepy.snapshot"] == str(done.snapshot)
    assert (upsert["nimblepy.table"], tag["nimblepy.operation"]) == ("a.b", "tag")
    span = recorder.exporter.get_finished_spans()[1]
    assert (span.end_time or 0) - (span.start_time or 0) == pytest.approx(done.seconds * 1e9, 0.01)
    assert recorder.total("commits") == 3
    assert recorder.total("commit.retries") == 0
    assert recorder.total("commit.rows", change="inserted") == 11
    assert recorder.total("commit.rows", operation="upsert", change="updated") == 1
    assert recorder.total("commit.bytes", operation="upsert") == done.bytes_written


def test_lookups_are_spans_and_counted(recorder: Recorder, lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", ROWS, primary_key="k")
    assert table.get(3) == {"k": 3, "v": 3}
    assert table.get(3, columns=["v"]) == {"v": 3}
    assert table.lookup([1, 2]).num_rows == 2
    assert table.range(2, 4).num_rows == 2
    operations = [span["nimblepy.operation"] for span in recorder.spans("nimblepy.lookup")]
    assert operations == ["get", "get", "lookup", "range"]
    assert recorder.total("lookups", operation="get") == 2
    with pytest.raises(nb.InvalidArgumentError):
        table.lookup(["x"], on="nothing")
    assert not recorder.exporter.get_finished_spans()[-1].status.is_ok


def test_scans_are_spans(recorder: Recorder, lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", ROWS, primary_key="k")
    table.to_table(filter="v > 4")
    batches = iter(table.scan())
    next(batches)
    assert len(recorder.spans("nimblepy.scan")) == 1
    del batches
    first, second = recorder.spans("nimblepy.scan")
    assert (first["nimblepy.table"], first["nimblepy.rows"]) == ("a.b", 5)
    assert second["nimblepy.rows"] == 10


def test_open_files_and_cache_hits(recorder: Recorder, lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", ROWS, primary_key="k", partition_by="bucket(4, k)")
    table.to_table()
    opened = recorder.total("files.open")
    assert opened >= 4
    hits = recorder.total("cache.hits")
    table.at(snapshot=table.snapshot).to_table()
    for _ in range(2):
        table.append(pa.table({"k": [recorder.total("commits") + 100], "v": [1]}))
        table.to_table()
    assert recorder.total("cache.hits") > hits
    table.close()
    del table
    gc.collect()
    assert recorder.total("files.open") < opened


def test_nothing_is_recorded_or_changed_before_and_after(lake: nb.Catalog) -> None:
    plain = nb.Table.get, nb.Table.lookup
    recorder = Recorder()
    table = lake.create_table("a.b", ROWS, primary_key="k")
    telemetry.enable(tracer_provider=recorder.tracers, meter_provider=recorder.meters)
    telemetry.enable(tracer_provider=recorder.tracers, meter_provider=recorder.meters)
    table.get(1)
    assert len(recorder.spans("nimblepy.lookup")) == 1
    telemetry.disable()
    telemetry.disable()
    table.get(1)
    table.append(pa.table({"k": [99], "v": [1]}))
    assert len(recorder.exporter.get_finished_spans()) == 1
    # A lookup runs the very code that it ran before, so it costs nothing.
    assert (nb.Table.get, nb.Table.lookup) == plain


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(nb.MissingExtraError, match=r"nimblepy\[otel\]"):
        telemetry.enable()


def test_a_failing_exporter_fails_no_commit(recorder: Recorder, lake: nb.Catalog) -> None:
    """The rows were in the table, but append raised the error of the exporter."""

    class Failing(SimpleSpanProcessor):
        def on_end(self, span: Any) -> None:
            raise RuntimeError("the collector is away")

    table = lake.create_table("a.b", ROWS, primary_key="k")
    recorder.tracers.add_span_processor(Failing(recorder.exporter))
    assert table.append([{"k": 10, "v": 1}]).rows_inserted == 1
    with table.alter() as alter:
        alter.add_column("w", pa.int64())
    assert lake.table("a.b").num_rows == 11
