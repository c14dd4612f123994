"""OpenTelemetry spans and counters of tables. Off until :func:`enable` is called.

Needs ``nimblepy[otel]``. The program configures where spans and metrics are sent.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from nimblepy.errors import MissingExtraError
from nimblepy.files.open_files import file_counts
from nimblepy.rows.request import Where
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.table import Table
from nimblepy.table.writing.commit import Commit, observers

if TYPE_CHECKING:
    import pyarrow as pa
    from opentelemetry.metrics import Meter, MeterProvider
    from opentelemetry.trace import Tracer, TracerProvider

_LOOKUPS = ("get", "lookup", "contains", "count", "range", "prefix")

_enabled: _Telemetry | None = None


def enable(
    *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
) -> None:
    """Starts recording spans and counters of all tables of this process.

    A second call replaces the providers.

    Args:
        tracer_provider, meter_provider: the providers to record with; the default is the global
            provider.

    Raises:
        MissingExtraError: ``nimblepy[otel]`` is not installed.

    Cost: a few microseconds per lookup, scan and commit. Without this call, the reading methods do
        not contain any code for telemetry.
    """
    global _enabled
    try:
        from opentelemetry.metrics import get_meter
        from opentelemetry.trace import get_tracer
    except ImportError as error:
        raise MissingExtraError(
            "telemetry.enable needs opentelemetry-api: pip install 'nimblepy[otel]'"
        ) from error
    disable()
    _enabled = _Telemetry(
        get_tracer("nimblepy", tracer_provider=tracer_provider),
        get_meter("nimblepy", meter_provider=meter_provider),
    )


def disable() -> None:
    """Stops recording."""
    global _enabled
    if _enabled is not None:
        _enabled.stop()
        _enabled = None


class _Telemetry:
    """Records spans and counters from its construction until :meth:`stop`."""

    def __init__(self, tracer: Tracer, meter: Meter) -> None:
        self._tracer = tracer
        self._is_active = True
        self._commits = meter.create_counter("nimblepy.commits")
        self._retries = meter.create_counter("nimblepy.commit.retries")
        self._rows = meter.create_counter("nimblepy.commit.rows")
        self._bytes = meter.create_counter("nimblepy.commit.bytes", unit="By")
        self._lookups = meter.create_counter("nimblepy.lookups")
        meter.create_observable_counter("nimblepy.cache.hits", [self._observer("hits")])
        meter.create_observable_up_down_counter("nimblepy.files.open", [self._observer("open")])
        # (class, name, the class's own method, or None if the method was inherited).
        self._replaced: list[tuple[type, str, Any]] = []
        for name in _LOOKUPS:
            self._replace(Table, name, self._traced_lookup(name))
        self._replace(FileSet, "scan_batches", self._traced_scan())
        observers.append(self._committed)

    def stop(self) -> None:
        self._is_active = False
        observers.remove(self._committed)
        for owner, name, own in self._replaced:
            if own is None:
                delattr(owner, name)
            else:
                setattr(owner, name, own)

    def _replace(self, owner: type, name: str, method: Callable[..., Any]) -> None:
        self._replaced.append((owner, name, vars(owner).get(name)))
        setattr(owner, name, method)

    def _observer(self, count: str) -> Callable[[Any], Iterable[Any]]:
        from opentelemetry.metrics import Observation

        def observe(_: Any) -> Iterable[Any]:
            if self._is_active:
                yield Observation(file_counts()[count])

        return observe

    def _committed(self, table: str, operation: str, done: Commit) -> None:
        attributes: dict[str, Any] = {
            "nimblepy.table": table,
            # Leave out details such as tag names, which would create too many time series.
            "nimblepy.operation": operation.partition(" ")[0],
        }
        self._commits.add(1, attributes)
        self._retries.add(done.retries, attributes)
        self._bytes.add(done.bytes_written, attributes)
        rows = {
            "inserted": done.rows_inserted,
            "updated": done.rows_updated,
            "deleted": done.rows_deleted,
        }
        for change, count in rows.items():
            if count:
                self._rows.add(count, {**attributes, "nimblepy.change": change})
        end = time.time_ns()
        span = self._tracer.start_span(
            "nimblepy.commit",
            attributes={
                **attributes,
                "nimblepy.snapshot": str(done.snapshot),  # as text: it has up to 63 bits
                "nimblepy.retries": done.retries,
                "nimblepy.rows_inserted": done.rows_inserted,
                "nimblepy.rows_updated": done.rows_updated,
                "nimblepy.rows_deleted": done.rows_deleted,
                "nimblepy.files_added": done.files_added,
                "nimblepy.files_removed": done.files_removed,
                "nimblepy.bytes_written": done.bytes_written,
            },
            start_time=end - int(done.seconds * 1e9),
        )
        span.end(end)

    def _traced_lookup(self, name: str) -> Callable[..., Any]:
        plain = inspect.getattr_static(Table, name)

        def lookup(table: Table, *arguments: Any, **keywords: Any) -> Any:
            attributes = {"nimblepy.table": table.name, "nimblepy.operation": name}
            self._lookups.add(1, attributes)
            with self._tracer.start_as_current_span("nimblepy.lookup", attributes=attributes):
                return plain.__get__(table, Table)(*arguments, **keywords)

        return lookup

    def _traced_scan(self) -> Callable[..., Any]:
        plain = inspect.getattr_static(FileSet, "scan_batches")

        def scan_batches(
            rows: FileSet, where: Where, *arguments: Any, **keywords: Any
        ) -> Iterator[pa.RecordBatch]:
            batches = plain(rows, where, *arguments, **keywords)
            return self._traced_batches(rows.reading.name, batches)

        return scan_batches

    def _traced_batches(
        self, table: str, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Yields the batches in a span, from the request for the first batch to the last batch."""
        from opentelemetry.trace import Status, StatusCode

        span = self._tracer.start_span("nimblepy.scan", attributes={"nimblepy.table": table})
        rows = 0
        try:
            for batch in batches:
                rows += batch.num_rows
                yield batch
        except Exception as error:
            span.record_exception(error)
            span.set_status(Status(StatusCode.ERROR, str(error)))
            raise
        finally:
            span.set_attribute("nimblepy.rows", rows)
            span.end()
