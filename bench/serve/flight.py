"""A Flight server of the same tables, to compare batches and rows with.

`python -m bench.serve.flight LAKE` serves, and prints its port.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.flight as flight

import nimblepy as nb
from bench.serve.peers import Peer

_TICKS = os.sysconf("SC_CLK_TCK")


class Lookups(flight.FlightServerBase):
    """`do_get` with a ticket of JSON: the table, the keys, and the columns or null for all."""

    def __init__(self, lake: str) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.lake = nb.connect(lake)
        self.tables: dict[str, nb.Table] = {}

    def do_get(
        self, _: flight.ServerCallContext, ticket: flight.Ticket
    ) -> flight.RecordBatchStream:
        name, keys, columns = json.loads(ticket.ticket)
        if name not in self.tables:
            self.tables[name] = self.lake.table(f"bench.{name}")
        return flight.RecordBatchStream(self.tables[name].lookup(keys, columns=columns))


def _cpu(pid: int) -> float:
    """Microseconds of CPU, of threads that ended too."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1e6 / _TICKS


@contextmanager
def _flight_server(lake: str) -> Iterator[tuple[int, flight.FlightClient]]:
    call = [sys.executable, "-m", "bench.serve.flight", lake]
    with subprocess.Popen(call, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            with flight.FlightClient(f"grpc://127.0.0.1:{port}") as client:
                yield process.pid, client
        finally:
            process.kill()


def to_flight(
    nimble: Peer, lake: str, cases: list[tuple[str, bytes, list[Any], int]], rounds: int
) -> list[dict[str, Any]]:
    """CPU of a request, in turns: (name, request of nimble, ticket of Flight, repeats)."""
    found = []
    with _flight_server(lake) as (pid, client):
        for name, request, asked, repeat in cases:
            ticket = flight.Ticket(json.dumps(asked).encode())
            size = len(nimble.reply(request))
            assert client.do_get(ticket).read_all().num_rows == len(asked[1])
            pairs = []
            for _ in range(rounds):
                before = nimble.cpu()
                for _ in range(repeat):
                    nimble.ask(request, size)
                ours = (nimble.cpu() - before) / 1e3 / repeat
                start = _cpu(pid)
                for _ in range(repeat):
                    client.do_get(ticket).read_all()
                pairs.append((ours, (_cpu(pid) - start) / repeat))
            found.append(
                {
                    "what": name,
                    "nimble us": round(statistics.median(a for a, _ in pairs), 1),
                    "flight us": round(statistics.median(b for _, b in pairs), 1),
                    "ratio": round(statistics.median(a / b for a, b in pairs), 3),
                }
            )
    return found


if __name__ == "__main__":
    server = Lookups(sys.argv[1])
    print(server.port, flush=True)
    server.serve()
