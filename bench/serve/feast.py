"""`python -m bench.serve.feast`: `get_online_features` of Feast with our store and with Redis.

Both stores have the same rows, and take turns. Two more stores show what Feast itself takes: `read
once` answers every read with the rows of the first one, and `no read` does not read at all. Needs
`feast[redis]` and a Redis server.
"""

from __future__ import annotations

import argparse
import json
import logging
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from feast import Entity, FeatureStore, FeatureView, Field, FileSource
from feast.infra.online_stores.online_store import OnlineStore
from feast.repo_config import RegistryConfig, RepoConfig
from feast.types import Float64, Int64
from feast.value_type import ValueType

from bench.serve.peers import redis_program

ENTITIES, FEATURES = 2000, 50
NAMES = [f"feature_{i:02}" for i in range(FEATURES)]
# Entities of a call, and calls of a turn.
CALLS = {1: 150, 100: 15}


def view(directory: str) -> tuple[Entity, FeatureView]:
    driver = Entity(name="driver", join_keys=["driver_id"], value_type=ValueType.INT64)
    features = [Field(name=n, dtype=Float64 if i % 2 else Int64) for i, n in enumerate(NAMES)]
    source = FileSource(path=f"{directory}/rows.parquet", timestamp_field="ts")
    drivers = FeatureView(
        name="drivers",
        entities=[driver],
        ttl=timedelta(days=100),
        schema=[Field(name="driver_id", dtype=Int64), *features],
        source=source,
    )
    return driver, drivers


def rows() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    values = {
        name: rng.random(ENTITIES).round(4) if i % 2 else rng.integers(0, 1000, ENTITIES)
        for i, name in enumerate(NAMES)
    }
    return pd.DataFrame({"driver_id": np.arange(ENTITIES), "ts": datetime.now(UTC), **values})


def store(directory: str, name: str, online: dict[str, Any], data: pd.DataFrame) -> FeatureStore:
    config = RepoConfig(
        project="bench",
        provider="local",
        registry=RegistryConfig(path=f"{directory}/{name}.db", cache_ttl_seconds=100_000),
        online_store=online,
        entity_key_serialization_version=3,
        repo_path=directory,
    )
    made = FeatureStore(config=config)
    made.apply([*view(directory)])
    made.write_to_online_store("drivers", df=data)
    return made


def limits(base: FeatureStore) -> dict[str, FeatureStore]:
    """Stores that do as little as Feast allows."""
    once, nothing = FeatureStore(config=base.config), FeatureStore(config=base.config)
    reader = once._get_provider().online_store
    read, known = reader.online_read, dict[int, Any]()

    def read_once(config: Any, table: Any, entity_keys: Any, requested_features: Any = None) -> Any:
        count = len(entity_keys)
        if count not in known:
            known[count] = read(config, table, entity_keys, requested_features)
        return known[count]

    reader.online_read = read_once
    reader._read_features_per_fv = lambda *given: OnlineStore._read_features_per_fv(reader, *given)
    nothing._get_provider().online_store._read_features_per_fv = lambda *given: None
    return {"read once": once, "no read": nothing}


def run(rounds: int, directory: str, port: int) -> dict[str, Any]:
    data = rows()
    data.to_parquet(f"{directory}/rows.parquet")
    path = {"type": "nimblepy.feast.NimbleOnlineStore", "path": f"{directory}/lake"}
    address = {"type": "redis", "connection_string": f"localhost:{port}"}
    stores = {name: store(directory, name, online, data) for name, online in
              (("redis", address), ("nimble", path))}  # fmt: skip
    stores |= limits(stores["nimble"])
    features = [f"drivers:{name}" for name in NAMES]
    rng = np.random.default_rng(2)
    out: dict[str, Any] = {}
    for count, calls in CALLS.items():
        asked = [{"driver_id": int(k)} for k in rng.integers(0, ENTITIES, count)]
        ask = {
            name: partial(s.get_online_features, features=features, entity_rows=asked)
            for name, s in stores.items()
        }
        answers = [ask[name]().to_dict() for name in ("redis", "nimble")]
        if {k: v for k, v in answers[0].items() if not k.startswith("_ts:")} != answers[1]:
            raise SystemExit("bench.serve.feast: answers differ")
        times: dict[str, list[float]] = {name: [] for name in stores}
        for _ in range(rounds):
            for name, call in ask.items():
                times[name].append(cpu_ms(call, calls))
        out[f"{count} x {FEATURES}"] = {
            name: {
                "cpu ms": round(statistics.median(of), 3),
                "to redis": round(
                    statistics.median(a / b for a, b in zip(of, times["redis"], strict=True)), 2
                ),
            }
            for name, of in times.items()
        }
    return out


def cpu_ms(call: Callable[[], Any], calls: int) -> float:
    """CPU of this process for each call, in milliseconds."""
    call()
    start = time.process_time_ns()
    for _ in range(calls):
        call()
    return (time.process_time_ns() - start) / 1e6 / calls


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.serve.feast", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    call = [redis_program(), "--port", str(port), "--save", "", "--appendonly", "no"]
    with (
        tempfile.TemporaryDirectory() as directory,
        subprocess.Popen(call, cwd=directory, stdout=subprocess.DEVNULL) as redis,
    ):
        try:
            time.sleep(1)
            print(json.dumps(run(given.rounds, directory, port), indent=1))
        finally:
            redis.terminate()


if __name__ == "__main__":
    main()
