"""The tables of the golden files. A change here changes files: add tables, do not edit them.

Nothing is random but for the sequence below, which is a formula: library generators may change.
"""

from __future__ import annotations

import decimal
import functools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

import nimblepy as nb


def numbers(n: int, modulus: int, seed: int = 1) -> list[int]:
    """A sequence of SplitMix64, modulo something."""

    def draw() -> Iterator[int]:
        state = seed
        for _ in range(n):
            state = (state + 0x9E3779B97F4A7C15) % 2**64
            z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
            z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
            yield (z ^ (z >> 31)) % modulus

    return list(draw())


def _float_array(bits: list[int | None], type_: pa.DataType) -> pa.Array:
    ints = {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[type_.bit_width]
    return pa.array(bits, ints).view(type_)


def leaves() -> pa.Table:
    """Every leaf type: extremes, nulls, empty values, NaN payloads."""
    d = decimal.Decimal
    columns: dict[str, pa.Array] = {"null": pa.nulls(7)}
    columns["bool"] = pa.array([True, None, False, False, True, None, True])
    for bits in (8, 16, 32, 64):
        top = 2 ** (bits - 1)
        columns[f"int{bits}"] = pa.array(
            [0, -1, None, top - 1, -top, 1, 0], getattr(pa, f"int{bits}")()
        )
        columns[f"uint{bits}"] = pa.array(
            [0, 1, None, top - 1, top, 2 * top - 1, 0], getattr(pa, f"uint{bits}")()
        )
    columns["float16"] = _float_array(
        [0, 0x8000, None, 0x7C00, 0xFC01, 0x3C00, 0x7E01], pa.float16()
    )
    columns["float32"] = _float_array(
        [0, 1 << 31, None, 0x7F800000, 0xFFC12345, 0x3FC00000, 1], pa.float32()
    )
    columns["float64"] = _float_array(
        [0, 1 << 63, None, 0xFFF << 52, (0x7FF8 << 48) + 99, 0x3FF8 << 48, 1], pa.float64()
    )
    small = [d("0.00"), d("-1.50"), None, d("99999.99"), d("-99999.99"), d("0.01"), d("7.00")]
    for bits, type_ in (
        (32, pa.decimal32(7, 2)),
        (64, pa.decimal64(18, 2)),
        (128, pa.decimal128(38, 2)),
        (256, pa.decimal256(76, 2)),
    ):
        columns[f"decimal{bits}"] = pa.array(small, type_)
    moments = [0, 1, None, -1, 86_399, 1_600_000_000, -(2**31)]
    day_times = [0, 1, None, 86_399, 86_398, 43_200, 5]
    columns["date32"] = pa.array(moments, pa.int32()).view(pa.date32())
    columns["date64"] = pa.array(
        [None if m is None else m // 1000 * 86_400_000 for m in moments], pa.int64()
    ).view(pa.date64())
    for type_ in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")):
        ints = pa.int32() if type_.bit_width == 32 else pa.int64()
        columns[str(type_)] = pa.array(day_times, ints).view(type_)
    for unit in ("s", "ms", "us", "ns"):
        for made in (pa.timestamp(unit), pa.timestamp(unit, "Europe/Paris"), pa.duration(unit)):
            columns[str(made)] = pa.array(moments, pa.int64()).view(made)
    columns["interval"] = pa.array(
        [(0, 0, 0), (1, -2, 3), None, (-1, 0, -(2**40)), (0, 9, 0), (0, 0, 1), (12, 0, 0)],
        pa.month_day_nano_interval(),
    )
    texts = ["", "a\0b", None, "\uffff𝄞", "a", "more than twelve bytes", "a"]
    for text_type in (pa.utf8(), pa.large_utf8(), pa.string_view()):
        columns[str(text_type)] = pa.array(texts, text_type)
    blobs = [b"", b"\0\xff", None, b"\xff" * 20, b"a", b"more than twelve", b"a"]
    for blob_type in (pa.binary(), pa.large_binary(), pa.binary_view()):
        columns[str(blob_type)] = pa.array(blobs, blob_type)
    columns["fixed3"] = pa.array(
        [b"abc", b"\0\0\0", None, b"\xff\xff\xff", b"abc", b"x\0y", b"zzz"], pa.binary(3)
    )
    columns["uuid"] = pa.array([bytes([i]) * 16 for i in range(7)], pa.uuid())
    return pa.table(columns)


def nested() -> pa.Table:
    """Every nested and encoded type."""
    lists: list[Any] = [[1, None, 3], [], None, [4], [5, 6]]
    point = pa.struct([pa.field("x", pa.int32(), nullable=False), ("name", pa.utf8())])
    points: list[Any] = [
        {"x": 1, "name": "p"},
        {"x": 2, "name": None},
        None,
        {"x": 3, "name": ""},
        {"x": 4, "name": "q"},
    ]
    i8, i32 = pa.int8(), pa.int32()
    columns = {
        "list": pa.array(lists, pa.list_(i32)),
        "large_list": pa.array(lists, pa.large_list(i8)),
        "list_view": pa.array(lists, pa.list_view(i32)),
        "large_list_view": pa.array(lists, pa.large_list_view(i8)),
        "fixed_list": pa.array([[1, 2], [None, 4], None, [5, 6], [7, 8]], pa.list_(pa.int16(), 2)),
        "map": pa.array(
            [[("a", 1), ("b", None)], [], None, [("", 0)], [("a", 2)]], pa.map_(pa.utf8(), i32)
        ),
        "struct": pa.array(points, point),
        "struct_of_lists": pa.array(
            [
                {"l": [[1], []], "b": True},
                {"l": None, "b": None},
                None,
                {"l": [None], "b": False},
                {"l": [], "b": True},
            ],
            pa.struct([("l", pa.list_(pa.list_(i8))), ("b", pa.bool_())]),
        ),
        "list_of_structs": pa.array([points[:2], [], None, [None], points[3:]], pa.list_(point)),
        "dictionary": pa.DictionaryArray.from_arrays(
            pa.array([2, 0, None, 2, 1], i8), pa.array(["low", "mid", "high"]), ordered=True
        ),
        "dictionary_wide": pa.DictionaryArray.from_arrays(
            pa.array([0, 1, 1, None, 0], pa.uint32()), pa.array([10, None], pa.int64())
        ),
        "runs": pa.RunEndEncodedArray.from_arrays(
            pa.array([2, 3, 5], i32), pa.array(["x", None, "y"])
        ),
        "dense_union": pa.UnionArray.from_dense(
            pa.array([0, 5, 0, 5, 5], i8),
            pa.array([0, 0, 1, 1, 2], i32),
            [pa.array([1, None], i32), pa.array(["a", "b", None])],
            ["i", "s"],
            [0, 5],
        ),
        "sparse_union": pa.UnionArray.from_sparse(
            pa.array([1, 0, 1, 0, 0], i8),
            [pa.array([1, 2, 3, 4, None], i32), pa.array(list("abcde"))],
        ),
    }
    table = pa.table(columns)
    return table.set_column(
        0, pa.field("list", pa.list_(i32), metadata={"k": "v"}), columns["list"]
    )


def encodings() -> pa.Table:
    """Columns that each suit another encoding."""
    n = 2000
    wide = numbers(n, 2**63, 2)
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "a rather long word among the others"]
    pick = numbers(n, 6, 3)
    sparse = [v if v % 97 == 0 else 7 for v in numbers(n, 10**6, 4)]
    walk, at = [], 10**12
    for step in numbers(n, 50, 5):
        at += step
        walk.append(at)
    sentence = [
        f"the {words[a]} of {words[b]} in {c}"
        for a, b, c in zip(pick, pick[::-1], numbers(n, 40, 6), strict=True)
    ]
    columns: dict[str, pa.Array] = {
        "constant": pa.array([42] * n, pa.int32()),
        "all_null": pa.array([None] * n, pa.utf8()),
        "small_range": pa.array([1000 + v for v in numbers(n, 200, 7)], pa.int64()),
        "random": pa.array(wide, pa.int64()),
        "outliers": pa.array(
            [v if i % 300 else v << 40 for i, v in enumerate(numbers(n, 100, 8))], pa.int64()
        ),
        "sequence": pa.array(range(n), pa.int64()),
        "walk": pa.array(walk, pa.int64()),
        "runs": pa.array([v for v in numbers(n // 50, 9, 9) for _ in range(50)], pa.int16()),
        "sparse": pa.array(sparse, pa.int32()),
        "few": pa.array([wide[v] for v in pick], pa.int64()),
        "prices": pa.array([v / 100 for v in numbers(n, 100_000, 10)], pa.float64()),
        "noise": pa.array([v / 2**61 for v in wide], pa.float64()),
        "noise32": pa.array([v / 2**61 for v in wide], pa.float32()),
        "words": pa.array([words[v] for v in pick]),
        "sentences": pa.array(sentence),
        "codes": pa.array([f"AB-{v:06d}-{v % 7}" for v in numbers(n, 10**6, 11)]),
        "blobs": pa.array([v.to_bytes(8, "big") for v in wide], pa.binary()),
        "flags": pa.array([v == 0 for v in pick]),
        "rare_flag": pa.array([v % 500 == 0 for v in range(n)]),
        "nulls": pa.array([None if v == 0 else v for v in pick], pa.int8()),
        "money": pa.array(
            [decimal.Decimal(v) / 100 for v in numbers(n, 10**7, 12)], pa.decimal128(15, 2)
        ),
    }
    return pa.table(columns)


def keyed() -> pa.Table:
    """Keys of all kinds with nulls and duplicates, in no order."""
    n = 60
    texts = ["", "a", "a\0", "b", None, "é"]
    return pa.table(
        {
            "n": pa.array([None if v == 0 else v - 5 for v in numbers(n, 10, 13)], pa.int32()),
            "t": pa.array([texts[v] for v in numbers(n, 6, 14)]),
            "f": _float_array(
                [[0, 1 << 63, None, 0x7FF8 << 48, 0xFFF << 52][v] for v in numbers(n, 5, 15)],
                pa.float64(),
            ),
            "row": pa.array(range(n), pa.int64()),
        }
    )


def long_keys() -> pa.Table:
    """Keys that take more than 3 bytes each in an index of all keys, in no order."""
    n = 400
    halves = zip(numbers(n, 2**64, 21), numbers(n, 2**64, 22), strict=True)
    users = [None if v == 0 else f"user {v * v * v % 1009:04d}" for v in numbers(n, 40, 23)]
    times = [None if v % 31 == 0 else v for v in numbers(n, 10**15, 24)]
    return pa.table(
        {
            "id": [f"{a:016x}-{b:016x}" for a, b in halves],
            "user": users,
            "at": pa.array(times, pa.timestamp("us", "UTC")),
            "row": pa.array(range(n), pa.int32()),
        }
    )


def _small(**more: Any) -> nb.WriteOptions:
    return nb.WriteOptions(
        stripe_rows=16,
        group_rows=32,
        key_chunk_rows=4,
        restart_interval=2,
        zone_rows=8,
        threads=1,
        **more,
    )


def numbers_with_structure() -> pa.Table:
    """Numbers with nulls, divisors, steps, repeats, or zero bits at the end."""
    n = 3_000
    a, b = (numbers(n, 10**6, seed) for seed in (71, 72))
    jumps = [0]
    for x in a[1:]:
        jumps.append(jumps[-1] + (x if x % 50 == 0 else 1))
    columns = {
        "nulls": pa.array([x if y % 3 == 0 else None for x, y in zip(a, b, strict=True)]),
        "few": pa.array([x / 7 if y % 50 == 0 else None for x, y in zip(a, b, strict=True)]),
        "seconds": pa.array([x * 1_000_000 for x in a], pa.timestamp("us")),
        "rows": pa.array(range(1_000, 1_000 + 7 * n, 7), pa.int32()),
        "jumps": pa.array(jumps),
        "half": pa.array([x % 1_000 if y % 2 else 0 for x, y in zip(a, b, strict=True)]),
        "wide": pa.array([float(pa.scalar(x / 3, pa.float32()).as_py()) for x in a]),
        "prices": pa.array([decimal.Decimal(x * 5) / 100 for x in a], pa.decimal128(12, 2)),
    }
    return pa.table(columns)


def strings_that_share() -> pa.Table:
    """Strings that repeat, begin like their neighbours, are mostly null, or are text."""
    n = 560
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]
    a, b, c = (numbers(n, 10**6, seed) for seed in (61, 62, 63))
    columns = {
        "repeated": [f"Agent/{x % 190}.0 (build {x % 190 * 7919}; {words[x % 8]})" for x in a],
        "sorted": sorted(
            f"/share/{words[x % 8]}/{words[y % 8]}/{z}" for x, y, z in zip(a, b, c, strict=True)
        ),
        "sparse": [f"note {x}" if y % 9 == 0 else None for x, y in zip(a, b, strict=True)],
        "text": [
            f'{{"id": {x}, "tags": ["{words[y % 8]}", "{words[z % 7]}"], "score": 0.{z % 1000}}}'
            for x, y, z in zip(a, b, c, strict=True)
        ],
    }
    return pa.table({name: pa.array(v, pa.string()) for name, v in columns.items()})


def phrases() -> pa.Table:
    """Text, enough of it that a dictionary for zstd is trained."""
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]
    text = [
        f'{{"id": {x}, "tags": ["{words[x % 8]}", "{words[x % 7]}"], "score": 0.{x % 1000}}}'
        for x in numbers(5_000, 10**6, 64)
    ]
    return pa.table({"text": text})


def prose() -> pa.Table:
    """Text of words that often stand together, more than its phrases take."""
    words = [
        "the",
        "of",
        "and",
        "to",
        "in",
        "is",
        "that",
        "it",
        "was",
        "for",
        "on",
        "are",
        "as",
        "with",
        "his",
        "they",
        "at",
        "be",
        "this",
        "have",
        "from",
    ]
    ends = ["", "s", "ing", "ed", "er"]
    n = 2_500
    text = []
    for row, seed in enumerate(numbers(n, 10**9, 91)):
        picked = [(seed // 7**k + row) % (21 * 5) for k in range(9)]
        text.append(" ".join(words[p % 21] + ends[p // 21] for p in picked))
    return pa.table({"text": text, "half": [t if i % 2 else None for i, t in enumerate(text)]})


def other_prose() -> pa.Table:
    """Text of one kind, then as much of another kind."""
    text = prose()["text"].to_pylist()
    return pa.table({"text": [*text, *(row[::-1].upper() for row in text)]})


def documents() -> pa.Table:
    """Text with long common parts, and bytes of which some are much more frequent."""
    n = 5_000
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]
    text = []
    for seed in numbers(n, 8**6, 96):
        a, b, c, d, e, f = (words[seed // 8**k % 8] for k in range(6))
        text.append(
            f'<record kind="{a}">\n  <title language="none given">{b} and then {c}</title>\n'
            f'  <description encoding="plain text, as it was entered">{d}</description>\n'
            f'  <related-records count="unknown at this time">{e}, {f}</related-records>\n</record>'
        )
    flags = [x & x >> 8 & 255 for x in numbers(n, 2**16, 97)]
    return pa.table({"text": text, "flags": pa.array(flags, pa.uint8())})


def values_that_return() -> pa.Table:
    """A few hundred distinct values of each type, most of which every stripe has."""
    n = 2_400
    a, b = (numbers(n, 10**6, seed) for seed in (74, 75))
    # The last third has some that the first has not.
    codes = [x % (450 if row > 1_600 else 400) for row, x in enumerate(a)]
    nulls = [y % 4 == 0 for y in b]
    ints = [(c**3 * 7919**4 + c) % 2**62 for c in codes]
    columns = {
        "int": pa.array(ints),
        "sparse": pa.array([None if null else i for i, null in zip(ints, nulls, strict=True)]),
        "float": pa.array([1 / (c + 1) for c in codes]),
        "binary": pa.array([i.to_bytes(12, "big") for i in ints], pa.binary(12)),
        "text": pa.array(
            [None if null else f"{i:x}-{c}" for i, c, null in zip(ints, codes, nulls, strict=True)]
        ),
        "list": pa.array([[i, i] for i in ints]),
    }
    return pa.table(columns)


def ids() -> pa.Table:
    """Numbers that are put together of others."""
    n = 2_000
    a, b = (numbers(n, 10**6, seed) for seed in (76, 77))
    pairs = list(zip(a, b, strict=True))
    columns = {
        "time": pa.array([(10**11 + row // 3) << 22 | b % 90 << 12 for row, b in enumerate(b)]),
        "shard": pa.array([x << 40 | y % 5_000 for x, y in pairs], pa.uint64()),
        "small": pa.array([-(x % 50_000) * 4_096 - y % 7 for x, y in pairs], pa.int32()),
    }
    return pa.table(columns)


def lines() -> pa.Table:
    """Of a log: text with numbers."""
    n = 1_200
    a, b = (numbers(n, 10**6, seed) for seed in (81, 82))
    levels = ["INFO", "INFO", "DEBUG", "WARN"]
    text = [
        None
        if x % 40 == 0
        else f"{i // 60:02d}:{i % 60:02d} [{levels[x % 4]}] 10.0.{x % 5}.{y % 256} "
        f"took {x} of 1000 ms"
        for i, (x, y) in enumerate(zip(a, b, strict=True))
    ]
    return pa.table({"line": text})


@functools.cache
def golden_files() -> dict[str, tuple[pa.Table, dict[str, Any]]]:
    """name -> the table, and how it is written. Without a cluster key rows keep their order."""
    one = {"threads": 1}
    files: dict[str, tuple[pa.Table, dict[str, Any]]] = {
        "leaves": (leaves(), {"options": nb.WriteOptions(**one)}),
        "nested": (nested(), {"options": nb.WriteOptions(**one), "metadata": {"who": "golden"}}),
        "no_rows": (leaves().slice(0, 0), {"options": nb.WriteOptions(**one)}),
        "no_columns": (pa.table({}), {"options": nb.WriteOptions(**one)}),
        "one_row": (keyed().slice(0, 1), {"options": _small(), "cluster_by": "n"}),
        "stripes": (keyed(), {"options": _small()}),
        "no_statistics": (keyed(), {"options": _small(statistics=False)}),
        "cluster_int": (keyed(), {"options": _small(), "cluster_by": "n"}),
        "cluster_text": (keyed(), {"options": _small(), "cluster_by": "t"}),
        "cluster_all": (
            keyed(),
            {
                "options": _small(cluster_bloom_bits_per_key=10.0),
                "cluster_by": [
                    nb.SortKey("f", descending=True),
                    nb.SortKey("t", nulls_first=True),
                    nb.SortKey("n", descending=True, nulls_first=True),
                ],
            },
        ),
        "cluster_unique": (
            keyed(),
            {
                "options": _small(cluster_bloom_bits_per_key=12.0),
                "cluster_by": "row",
                "unique": True,
            },
        ),
    }
    files["indexes"] = (
        keyed(),
        {
            "options": _small(),
            "indexes": [
                nb.SortedIndex([nb.SortKey("t", descending=True), "n"]),
                nb.HashIndex(["t", "n"]),
                nb.HashIndex("f", bloom_bits_per_key=None, load_factor=0.5),
                nb.SortedIndex(nb.SortKey("f", nulls_first=True)),
            ],
        },
    )
    files["indexes_beside_cluster"] = (
        keyed(),
        {
            "options": _small(),
            "cluster_by": "n",
            "indexes": [nb.SortedIndex("row"), nb.HashIndex("t", bloom_bits_per_key=12.0)],
        },
    )
    long = {
        "sampled_text": ["id"],
        "sampled_columns": [
            nb.SortKey("user", nulls_first=True),
            nb.SortKey("at", descending=True),
        ],
    }
    for name, keys in long.items():
        options = nb.WriteOptions(
            stripe_rows=150, group_rows=300, key_chunk_rows=128, zone_rows=64, **one
        )
        files[name] = (long_keys(), {"options": options, "cluster_by": keys})
    files["column_bloom"] = (
        keyed(),
        {"options": _small(bloom_columns=["n", "t", "f"], bloom_bits_per_key=12.0)},
    )
    files["numbers_balanced"] = (numbers_with_structure(), {"options": nb.WriteOptions(**one)})
    for level in ("balanced", "compact"):
        files[f"strings_{level}"] = (
            strings_that_share(),
            {"options": nb.WriteOptions(compression=level, **one)},
        )
    files["prose"] = (prose(), {"options": nb.WriteOptions(compression="compact", **one)})
    files["documents"] = (documents(), {"options": nb.WriteOptions(compression="compact", **one)})
    # The second stripe has phrases of its own.
    files["own_phrases"] = (
        other_prose(),
        {"options": nb.WriteOptions(compression="compact", stripe_rows=2_500, **one)},
    )
    files["shared_phrases"] = (
        pa.table({"text": [*prose()["text"].to_pylist(), *phrases()["text"].to_pylist()[:2_000]]}),
        {"options": nb.WriteOptions(compression="compact", stripe_rows=1_250, **one)},
    )
    files["shared_dictionary"] = (
        values_that_return(),
        {"options": nb.WriteOptions(stripe_rows=800, **one)},
    )
    files["ids"] = (ids(), {"options": nb.WriteOptions(**one)})
    files["lines"] = (lines(), {"options": nb.WriteOptions(compression="compact", **one)})
    files["phrases"] = (phrases(), {"options": nb.WriteOptions(compression="compact", **one)})
    for level in ("balanced", "fast", "compact"):
        files[f"encodings_{level}"] = (
            encodings(),
            {"options": nb.WriteOptions(compression=level, **one)},
        )
    return files
