"""asof_join is a loop over rows: types, directions, ties, nulls, tolerance, deletes, many files."""

from __future__ import annotations

import datetime
import decimal
import math
import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from asof_oracle import check_join

import nimblepy as nb

pytestmark = pytest.mark.model

D = decimal.Decimal
START = datetime.datetime(2026, 5, 1)


def _times(unit: str, zone: str | None = None) -> Callable[[random.Random], Any]:
    tz = datetime.UTC if zone else None
    step = {"s": 1_000_000, "ms": 1000}.get(unit, 1)

    def draw(r: random.Random) -> Any:
        return START.replace(tzinfo=tz) + datetime.timedelta(microseconds=step * r.randrange(9))

    return draw


# Type and random value; few values, so that ties and exact matches are frequent.
TYPES: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "int8": (pa.int8(), lambda r: r.choice([-128, -2, -1, 0, 1, 2, 127])),
    "int64": (pa.int64(), lambda r: r.choice([-(2**63), -2, 0, 1, 3, 5, 2**63 - 1])),
    "uint16": (pa.uint16(), lambda r: r.choice([0, 1, 3, 5, 65535])),
    "uint64": (pa.uint64(), lambda r: r.choice([0, 1, 2, 4, 2**64 - 1])),
    "float32": (pa.float32(), lambda r: r.choice([-math.inf, -1.5, -0.0, 0.0, 0.5, 2.0])),
    "float64": (
        pa.float64(),
        lambda r: r.choice([-math.inf, -0.0, 0.0, 0.1, 1.5, math.inf, math.nan]),
    ),
    "decimal": (pa.decimal128(20, 2), lambda r: D(r.randrange(-4, 4)) / 4),
    "decimal256": (pa.decimal256(50, 3), lambda r: D(r.randrange(-4, 4)) / 8),
    "date32": (pa.date32(), lambda r: START.date() + datetime.timedelta(days=r.randrange(9))),
    "ts[s]": (pa.timestamp("s"), _times("s")),
    "ts[us, zone]": (pa.timestamp("us", "Europe/Berlin"), _times("us", "zone")),
    "ts[ns]": (pa.timestamp("ns"), _times("ns")),
    "time64": (pa.time64("us"), lambda r: datetime.time(microsecond=r.randrange(9))),
    "duration": (pa.duration("ms"), lambda r: datetime.timedelta(milliseconds=r.randrange(-4, 5))),
    "text": (pa.string(), lambda r: r.choice(["", "a", "a\0", "a\0b", "aa", "b", "é"])),
    "binary": (pa.binary(), lambda r: r.choice([b"", b"\0", b"\1", b"a", b"\xff", b"\xff\xff"])),
    "uuid": (pa.uuid(), lambda r: uuid.UUID(int=r.randrange(7) << 120)),
    "bool": (pa.bool_(), lambda r: r.random() < 0.5),
}
WITHOUT_DISTANCE = {"text", "binary", "uuid", "bool"}
DIRECTIONS = ("backward", "forward", "nearest")


def draw_table(
    r: random.Random, count: int, columns: dict[str, str], nulls: float = 0.1
) -> pa.Table:
    arrays = {}
    for name, kind in columns.items():
        data_type, draw = TYPES[kind]
        values = [None if r.random() < nulls else draw(r) for _ in range(count)]
        arrays[name] = pa.array(values, data_type)
    return pa.table({**arrays, "id": pa.array(range(count), pa.int64())})


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_in_every_direction(tmp_path: Path, kind: str) -> None:
    r = random.Random(f"types {kind}")
    for descending, nulls_first in ((False, False), (True, False), (False, True), (True, True)):
        events = draw_table(r, 60, {"user": "int8", "t": kind})
        key = [nb.SortKey("user"), nb.SortKey("t", descending=descending, nulls_first=nulls_first)]
        nb.write(events, tmp_path / "e.nimble", cluster_by=key)
        probe = draw_table(r, 40, {"user": "int8", "t": kind}).drop_columns(["id"])
        with nb.open(tmp_path / "e.nimble") as file:
            live = file.to_table().to_pylist()
            for direction in DIRECTIONS:
                if direction == "nearest" and kind in WITHOUT_DISTANCE:
                    with pytest.raises(nb.InvalidArgumentError, match="no distance"):
                        file.asof_join(probe, on="t", by="user", direction=direction)
                    continue
                exact = r.random() < 0.5
                check_join(
                    file,
                    live,
                    probe,
                    on="t",
                    by="user",
                    direction=direction,
                    allow_exact_matches=exact,
                )


@pytest.mark.parametrize("kind", ["int64", "text", "float64", "uuid"])
def test_by_of_every_kind_and_none(tmp_path: Path, kind: str) -> None:
    r = random.Random(f"by {kind}")
    events = draw_table(r, 150, {"a": kind, "b": "int8", "t": "ts[us, zone]"})
    probe = draw_table(r, 60, {"a": kind, "b": "int8", "t": "ts[us, zone]"}).drop_columns(["id"])
    for by in (["a"], ["a", "b"], ["b", "a"], []):
        nb.write(events, tmp_path / "e.nimble", cluster_by=[*by, "t"])
        with nb.open(tmp_path / "e.nimble") as file:
            live = file.to_table().to_pylist()
            asked = list(reversed(by)) or None
            for direction in DIRECTIONS:
                check_join(file, live, probe, on="t", by=asked, direction=direction)


def test_longer_and_sorted_indexes_take_the_row_of_file_order(tmp_path: Path) -> None:
    r = random.Random("longer")
    for _ in range(6):
        events = draw_table(r, 120, {"u": "int8", "t": "int8", "x": "int8"})
        index = [
            "u",
            nb.SortKey("t", descending=r.random() < 0.5),
            *(["x"] if r.random() < 0.5 else []),
        ]
        nb.write(events, tmp_path / "e.nimble", cluster_by="id", indexes=[nb.SortedIndex(index)])
        probe = draw_table(r, 50, {"u": "int8", "t": "int8"}).drop_columns(["id"])
        with nb.open(tmp_path / "e.nimble") as file:
            live = file.to_table().to_pylist()
            for direction in DIRECTIONS:
                check_join(file, live, probe, on="t", by="u", direction=direction)


@pytest.mark.parametrize(
    ("kind", "tolerance"),
    [
        ("int64", 2),
        ("int64", 1.5),
        ("uint64", 1),
        ("float64", 1.4),
        ("decimal", D("0.25")),
        ("date32", datetime.timedelta(days=1)),
        ("ts[us, zone]", datetime.timedelta(microseconds=2)),
        ("ts[ns]", datetime.timedelta(0)),
        ("time64", datetime.timedelta(microseconds=1)),
        ("duration", datetime.timedelta(milliseconds=2)),
    ],
)
def test_tolerance_is_inclusive(tmp_path: Path, kind: str, tolerance: Any) -> None:
    r = random.Random(f"tolerance {kind}")
    events = draw_table(r, 25, {"user": "int8", "t": kind})
    nb.write(events, tmp_path / "e.nimble", cluster_by=["user", "t"])
    probe = draw_table(r, 80, {"user": "int8", "t": kind}).drop_columns(["id"])
    with nb.open(tmp_path / "e.nimble") as file:
        live = file.to_table().to_pylist()
        for direction in DIRECTIONS:
            for exact in (True, False):
                check_join(
                    file,
                    live,
                    probe,
                    on="t",
                    by="user",
                    direction=direction,
                    tolerance=tolerance,
                    allow_exact_matches=exact,
                )


@pytest.mark.parametrize(
    ("probe_type", "stored", "values"),
    [
        (pa.timestamp("us"), pa.timestamp("ns"), [0, 1, 2, 3]),
        (pa.timestamp("ns"), pa.timestamp("us"), [0, 999, 1000, 1001, 2500, -1, -1500]),
        (pa.timestamp("s"), pa.timestamp("ns"), [0, 1, 2**62]),
        (pa.timestamp("ns"), pa.timestamp("s"), [0, 1, 10**9, 2 * 10**9 + 1, -1]),
        (pa.timestamp("us"), pa.timestamp("s"), [-(2**63), 0, 1]),
        (pa.duration("ms"), pa.duration("s"), [-(2**63), 0, 1, 2001]),
        (pa.int32(), pa.int64(), [-1, 0, 1, 2]),
        (pa.int64(), pa.int8(), [-(2**40), -129, -128, 0, 2, 127, 128, 2**40]),
        (pa.uint64(), pa.int8(), [0, 1, 127, 128, 2**64 - 1]),
        (pa.int8(), pa.uint64(), [-1, 0, 1]),
        (pa.float64(), pa.float32(), [-1.0, 0.1, 0.5, 1e300]),
        (pa.decimal128(10, 3), pa.decimal128(10, 1), [D("0.1"), D("0.149"), D("-0.05")]),
        (pa.large_string(), pa.string(), ["", "a", "b"]),
        (pa.dictionary(pa.int32(), pa.int64()), pa.int64(), [-1, 0, 1, 2]),
    ],
)
def test_probes_of_another_type_match_by_value(
    tmp_path: Path, probe_type: pa.DataType, stored: pa.DataType, values: list[Any]
) -> None:
    r = random.Random(f"{probe_type} {stored}")
    if pa.types.is_temporal(stored):
        have: list[Any] = [0, 1, 2, 1000, 2000]
    elif pa.types.is_decimal(stored):
        have = [D("-0.1"), D(0), D("0.1"), D("0.2")]
    elif stored == pa.string():
        have = ["", "a", "ab"]
    else:
        have = [0, 1, 2, 127] if stored != pa.float32() else [-1.0, 0.1, 0.5, 3e38]
        have += [-128] if stored == pa.int8() else []
    picked = [r.choice(have) for _ in range(8)]
    events = pa.table({"t": pa.array(picked, stored), "id": pa.array(range(8))})
    nb.write(events, tmp_path / "e.nimble", cluster_by="t")
    plain_type = probe_type.value_type if pa.types.is_dictionary(probe_type) else probe_type
    at = pa.array([*values, None], plain_type)
    probe = pa.table({"t": at.dictionary_encode() if plain_type != probe_type else at})

    def plain(table: pa.Table, data_type: pa.DataType) -> pa.Table:
        """Times as nanoseconds, which Python compares without rounding."""
        if not pa.types.is_temporal(data_type):
            return table
        unit = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[data_type.unit]
        counts = table["t"].cast(pa.int64()).to_pylist()
        return table.set_column(
            0, "t", pa.array([None if v is None else D(v) * unit for v in counts])
        )

    with nb.open(tmp_path / "e.nimble") as file:
        live = plain(file.to_table(), stored).to_pylist()

        class Plain:
            def asof_join(self, probe: pa.Table, **how: Any) -> pa.Table:
                joined = file.asof_join(original, **how)
                return plain(joined, probe_type)

        original = probe
        for direction in DIRECTIONS:
            if direction == "nearest" and stored == pa.string():
                continue
            for exact in (True, False):
                check_join(
                    Plain(),
                    live,
                    plain(probe, probe_type),
                    on="t",
                    direction=direction,
                    allow_exact_matches=exact,
                )


def test_known_at_ignores_later_rows(tmp_path: Path) -> None:
    r = random.Random("known")
    for _ in range(8):
        events = draw_table(r, 150, {"u": "int8", "t": "int8", "created": "ts[ns]"})
        descending = r.random() < 0.5
        key = ["u", nb.SortKey("t", descending=descending)]
        if r.random() < 0.5:
            nb.write(events, tmp_path / "e.nimble", cluster_by=key)
        else:
            index = nb.SortedIndex([*key, "id"] if r.random() < 0.5 else key)
            nb.write(events, tmp_path / "e.nimble", cluster_by="id", indexes=[index])
        probe = draw_table(r, 60, {"u": "int8", "t": "int8", "seen": "ts[us, zone]"})
        seen = probe["seen"].cast(pa.timestamp("us"))
        probe = probe.set_column(2, "seen", seen).drop_columns(["id"])
        with nb.open(tmp_path / "e.nimble") as file:
            live = file.to_table().to_pylist()
            for direction in DIRECTIONS:
                check_join(
                    file,
                    live,
                    probe,
                    on="t",
                    by="u",
                    direction=direction,
                    known_at={"seen": "created"},
                    allow_exact_matches=r.random() < 0.5,
                )


@pytest.mark.parametrize("index", ["cluster", "descending", "sorted", "with ties"])
def test_known_at_far_from_the_probe(tmp_path: Path, index: str) -> None:
    # Rows of 64 blocks are not known to most probes, and a few rows are.
    rng, count = np.random.default_rng(5), 64 * 4096 * 2 + 100
    created = rng.integers(1000, 2000, count)
    created[rng.integers(0, count, 40)] = rng.integers(0, 1000, 40)
    nulls = rng.random(count) < 0.1
    t = np.sort(rng.integers(0, 50 if index == "with ties" else count, count))
    events = pa.table({"t": t, "created": pa.array(created, mask=nulls), "id": np.arange(count)})
    how: dict[str, Any] = {"cluster_by": "t"}
    if index == "descending":
        how = {"cluster_by": nb.SortKey("t", descending=True)}
    elif index == "sorted":
        how = {"indexes": [nb.SortedIndex("t")]}
    elif index == "with ties":
        how = {"indexes": [nb.SortedIndex(["t", "created"])]}
    nb.write(events, tmp_path / "e.nimble", **how)
    at, seen = rng.choice(t, 60), rng.integers(0, 1010, 60)
    probe = pa.table({"t": at, "seen": seen})
    usable = np.where(nulls, 9999, created)
    with nb.open(tmp_path / "e.nimble") as file:
        order = file.to_table(["id"]).column("id").to_numpy()
        place = np.empty(count, dtype=np.int64)
        place[order] = np.arange(count)
        for direction in ("backward", "forward"):
            joined = file.asof_join(
                probe, on="t", direction=direction, known_at={"seen": "created"}, columns=["id"]
            )
            for row, value, limit in zip(joined["id"].to_pylist(), at, seen, strict=True):
                is_before = direction == "backward"
                side = t <= value if is_before else t >= value
                matching = np.flatnonzero(side & (usable <= limit))
                if not len(matching):
                    assert row is None
                    continue
                nearest = t[matching].max() if is_before else t[matching].min()
                tied = matching[t[matching] == nearest]
                in_file = tied[np.argsort(place[tied])]
                assert row == in_file[-1 if is_before else 0]


@pytest.mark.parametrize("cluster", ["t", "descending", "id"])
def test_many_files(tmp_path: Path, cluster: str) -> None:
    r = random.Random(f"files {cluster}")
    key = {"t": ["u", "t"], "descending": ["u", nb.SortKey("t", descending=True)], "id": ["id"]}
    live = []
    for i in range(5):
        events = draw_table(r, 30, {"u": "int8", "t": "int8", "created": "int8"})
        ids = pa.array(range(100 * i, 100 * i + 30))
        events = events.set_column(3, "id", ids)
        indexes = [nb.SortedIndex(["u", "t"])] if cluster == "id" else []
        nb.write(events, tmp_path / f"{i}.nimble", cluster_by=key[cluster], indexes=indexes)
        live += events.to_pylist()
    probe = draw_table(r, 80, {"u": "int8", "t": "int8", "seen": "int8"}).drop_columns(["id"])
    with nb.open_dataset(tmp_path) as files:
        for direction in DIRECTIONS:
            for known in (None, {"seen": "created"}):
                check_join(
                    files,
                    live,
                    probe,
                    on="t",
                    by="u",
                    direction=direction,
                    known_at=known,
                    one_file=False,
                )


def test_single_rows_are_those_of_the_join(tmp_path: Path) -> None:
    r = random.Random("single")
    for i in range(4):
        events = draw_table(r, 40, {"u": "int8", "t": "int64", "created": "int8"})
        ids = pa.array(range(100 * i, 100 * i + 40))
        nb.write(
            events.set_column(3, "id", ids),
            tmp_path / f"{i}.nimble",
            cluster_by=["u", nb.SortKey("t", descending=i < 0)],
            unique=False,
        )
    probe = draw_table(r, 50, {"u": "int8", "t": "int64", "seen": "int8"}).drop_columns(["id"])
    with nb.open(tmp_path / "0.nimble") as file, nb.open_dataset(tmp_path) as files:
        for source in (file, files):
            for direction in DIRECTIONS:
                for exact in (True, False):
                    how: dict[str, Any] = {"direction": direction, "allow_exact_matches": exact}
                    joined = source.asof_join(probe, on="t", by="u", **how)
                    for row in joined.to_pylist():
                        single = source.asof((row["u"], row["t"]), ["u", "t"], **how)
                        assert (single or {}).get("t") == row["t_right"]
                        again = source.asof({"t": row["t"], "u": row["u"]}, ["t"], **how)
                        assert (again or {}).get("t") == row["t_right"]
                    limited = source.asof_join(
                        probe, on="t", by="u", known_at={"seen": "created"}, tolerance=3, **how
                    )
                    for row in limited.to_pylist():
                        single = source.asof(
                            (row["u"], row["t"]),
                            ["t"],
                            known_at=("created", row["seen"]),
                            tolerance=3,
                            **how,
                        )
                        assert (single or {}).get("t") == row["t_right"]


def test_literals_of_single_keys(tmp_path: Path) -> None:
    times = pa.array([START, START + datetime.timedelta(days=1)], pa.timestamp("us", "UTC"))
    events = pa.table({"u": ["a", "a"], "t": times, "n": pa.array([1, 2], pa.int8())})
    nb.write(events, tmp_path / "e.nimble", cluster_by=["u", "t"])
    nb.write(events, tmp_path / "n.nimble", cluster_by="n")
    with nb.open(tmp_path / "e.nimble") as file:
        for at in (START, START.replace(tzinfo=datetime.UTC), "2026-05-01", START.date()):
            row = file.asof(("a", at), ["n"])
            assert row == {"n": 1}, at
        hour = datetime.timedelta(hours=1)
        assert file.asof(("a", START + hour), ["n"], tolerance=hour) == {"n": 1}
        less = hour - datetime.timedelta(microseconds=1)
        assert file.asof(("a", START + hour), ["n"], tolerance=less) is None
        assert file.asof(("a", START - hour), ["n"]) is None
        assert file.asof(("a", START - hour), ["n"], direction="nearest") == {"n": 1}
        assert file.asof(("a", None)) is None
        assert file.asof((None, START)) is None
    with nb.open(tmp_path / "n.nimble") as file:
        assert file.asof(1.5, ["n"]) == {"n": 1}
        assert file.asof(1.5, ["n"], direction="forward") == {"n": 2}
        assert file.asof(1.5, ["n"], direction="nearest") == {"n": 1}
        assert file.asof(1.6, ["n"], direction="nearest") == {"n": 2}
        assert file.asof(1.5, ["n"], tolerance=0.4) is None
        assert file.asof(300, ["n"]) == {"n": 2}
        assert file.asof(-300, ["n"]) is None
        assert file.asof(-300, ["n"], direction="forward") == {"n": 1}
        assert file.asof((1,), ["n"]) == file.asof({"n": 1}, ["n"]) == {"n": 1}


def test_tolerance_between_two_values_of_the_column(tmp_path: Path) -> None:
    times = pa.array([START, START + datetime.timedelta(seconds=1)], pa.timestamp("ms"))
    events = pa.table({"n": [1, 5], "x": [0.5, math.inf], "t": times})
    for name in events.column_names:
        nb.write(events, tmp_path / f"{name}.nimble", cluster_by=name)
    with nb.open(tmp_path / "n.nimble") as file:
        assert file.asof(3.5, ["n"], tolerance=2.7) == {"n": 1}
        assert file.asof(3.5, ["n"], tolerance=2.5) == {"n": 1}
        assert file.asof(3.5, ["n"], tolerance=2.4) is None
        assert file.asof(math.inf, ["n"], tolerance=math.inf) == {"n": 5}
        assert file.asof(10**30, ["n"], tolerance=10**30) == {"n": 5}
        assert file.asof(10**30, ["n"], tolerance=10**29) is None
    with nb.open(tmp_path / "t.nimble") as file:
        late = START + datetime.timedelta(microseconds=1500)
        for tolerance, expected in ((1500, {"n": 1}), (1499, None)):
            limit = datetime.timedelta(microseconds=tolerance)
            assert file.asof(late, ["n"], tolerance=limit) == expected
    with nb.open(tmp_path / "x.nimble") as file:  # numbers beyond all floats
        assert file.asof(10**400, ["n"], direction="nearest") == {"n": 1}
        assert file.asof(10**400, ["n"], tolerance=1) is None
        assert file.asof(1, ["n"], tolerance=10**400) == {"n": 1}


def test_probes_without_a_type_match_nothing(tmp_path: Path) -> None:
    nb.write(pa.table({"t": [1, 2]}), tmp_path / "e.nimble", cluster_by="t")
    with nb.open(tmp_path / "e.nimble") as file:
        for how in ({"direction": "nearest"}, {"tolerance": 1}):
            joined = file.asof_join(pa.table({"t": pa.nulls(2)}), on="t", **how)
            assert joined["t_right"].to_pylist() == [None, None]


def test_wrong_directions(tmp_path: Path) -> None:
    nb.write(pa.table({"t": [1, 2]}), tmp_path / "e.nimble", cluster_by="t")
    with nb.open(tmp_path / "e.nimble") as file:
        for wrong in ("up", None, ["backward"]):
            how: dict[str, Any] = {"direction": wrong}
            with pytest.raises(nb.InvalidArgumentError, match="direction: expected one of"):
                file.asof(1, **how)
