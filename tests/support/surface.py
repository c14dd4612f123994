"""`python -m surface`: every way of reading rows against DuckDB and polars over the same rows.

python -m surface                    200 seeds
python -m surface --seed 7           one of them, with what was asked
"""

# ruff: noqa: E501  queries are longer than lines
from __future__ import annotations

import argparse
import datetime as dt
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import polars as pl
import pyarrow as pa

import nimblepy as nb

NAN, INF = float("nan"), float("inf")
CATEGORIES = ["u", "v", "w", "Ä", "", "zz"]
# Column -> its polars type, its values, and others that it is asked for. The values of "e" get an
# order of their own for each seed.
VALUES: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "k": (pl.Int16, [-5, -1, 0, 1, 2, 3, 300], [-6, 40_000]),
    "n": (pl.UInt64, [0, 1, 2, 2**63, 2**64 - 1], [7]),
    "x": (pl.Float64, [0.0, -0.0, 1.5, -2.25, 3.0, NAN, INF, -INF], [2.0]),
    "m": (pl.Decimal(9, 2), [Decimal("0.10"), Decimal("-3.00"), Decimal("12.34")], [Decimal(5)]),
    "s": (pl.String, ["a", "ab", "b", "", "é", "zz"], ["nope"]),
    "e": (pl.Enum, CATEGORIES, []),
    "c": (pl.Categorical, CATEGORIES, ["nope"]),
    "t": (pl.Datetime("us"), [dt.datetime(2024, 2, d, h) for d in (1, 29) for h in (0, 7)],
          [dt.datetime(2024, 2, 10)]),
    "d": (pl.Date, [dt.date(1969, 12, 31), dt.date(2024, 2, 29)], [dt.date(2000, 1, 1)]),
    "y": (pl.Binary, [b"", b"a", b"\xff", b"a\x00"], [b"b"]),
    "b": (pl.Boolean, [True, False], []),
}  # fmt: skip
KEYS = [
    None,
    ["k"],
    ["k", "s"],
    ["t"],
    ["c", "k"],
    ["e"],
    ["x", "k"],
    ["n", "d", "s"],
    ["m"],
    ["y", "b"],
]
INDEXES = [[], [("sorted", ["k"])], [("hash", ["s"]), ("sorted", ["t", "k"])], [("hash", ["c"])],
           [("sorted", ["x"]), ("hash", ["k", "s"])], [("sorted", ["m", "n"])]]  # fmt: skip
OPS = ["=", "<>", "<", "<=", ">", ">="]


class Question(NamedTuple):
    """What was asked of ``by`` and both answers."""

    by: str
    text: str
    ours: object
    theirs: object


# ------------------------------------------------------------------ rows


def make_frame(chance: random.Random) -> pl.DataFrame:
    """Up to 400 rows of every type, with nulls."""
    rows = chance.choice([0, 1, 7, 60, 150, 400])
    gaps = chance.choice([0.0, 0.15, 0.6])
    columns = {"id": pl.Series(range(rows), dtype=pl.Int64)}
    for name, (kind, values, _) in VALUES.items():
        if kind is pl.Enum:
            kind = pl.Enum(chance.sample(values, len(values)))
        drawn = [None if chance.random() < gaps else chance.choice(values) for _ in range(rows)]
        columns[name] = pl.Series(drawn, dtype=kind)
    return pl.DataFrame(columns)


def plain(table: pa.Table) -> pa.Table:
    """Dictionaries as their values: what is compared, and what DuckDB and Iceberg have types for."""
    fields = []
    for field in table.schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        named = {pa.string_view(): pa.string(), pa.large_string(): pa.string(),
                 pa.binary_view(): pa.binary(), pa.large_binary(): pa.binary()}  # fmt: skip
        fields.append(pa.field(field.name, named.get(kind, kind)))
    arrays = [
        pa.array(column.to_pylist(), field.type)
        for column, field in zip(table.columns, fields, strict=True)
    ]
    return pa.table(arrays, schema=pa.schema(fields))


def same(ours: Any, theirs: Any) -> bool:
    """Equality that finds NaN equal."""
    return repr(ours) == repr(theirs)


def literal(value: Any) -> str:
    """As SQL writes it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case float():
            return f"'{value!r}'::DOUBLE"
        case bytes():
            return "'" + "".join(f"\\x{byte:02x}" for byte in value) + "'::BLOB"
        case dt.datetime():
            return f"TIMESTAMP '{value}'"
        case dt.date():
            return f"DATE '{value}'"
        case str():
            return "'" + value.replace("'", "''") + "'"
    return str(value)


def sort_key(chance: random.Random, name: str) -> nb.SortKey:
    return nb.SortKey(name, descending=chance.random() < 0.4, nulls_first=chance.random() < 0.3)


def ordered(keys: list[nb.SortKey]) -> str:
    """The order of a key as DuckDB has it, then that of the rows."""
    parts = [
        f"{key.column} {'DESC' if key.descending else 'ASC'} "
        f"NULLS {'FIRST' if key.nulls_first else 'LAST'}"
        for key in keys
    ]
    return ", ".join([*parts, "place"])


def before(keys: list[nb.SortKey], values: tuple[Any, ...], *, equal: bool) -> str:
    """Whether the key of a row comes before ``values``, or begins with them."""
    found = "TRUE" if equal else "FALSE"
    for key, value in reversed(list(zip(keys, values, strict=False))):
        column, op = key.column, ">" if key.descending else "<"
        if value is None:
            less = f"{column} IS NOT NULL" if not key.nulls_first else "FALSE"
        else:
            less = f"COALESCE({column} {op} {literal(value)}, {key.nulls_first})"
        alike = f"{column} IS NOT DISTINCT FROM {literal(value)}"
        found = f"({less} OR ({alike} AND {found}))"
    return found


# ------------------------------------------------------------------ one seed


class Examination:
    """Rows written at random in one way, and questions to them."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.asked: Counter[str] = Counter()
        self.different: list[Question] = []
        self._directory = directory
        frame = make_frame(chance)
        names = chance.choice(KEYS)
        self.key = [sort_key(chance, name) for name in names or []]
        self.form = chance.choice(["file", "file", "dataset", "table"])
        self.rows: Any = self._write(frame, chance.choice(INDEXES))
        stored = plain(self.rows.to_table())
        self.names = stored.column_names
        self.file_order: list[int] = stored["id"].to_pylist()
        if sorted(self.file_order) != list(range(len(frame))):
            raise AssertionError(f"seed {seed}: rows were lost or doubled")
        self.duck = duckdb.connect()
        self.duck.execute("SET TimeZone = 'UTC'; SET threads = 1; PRAGMA disable_optimizer")
        self.duck.register("s", stored.append_column("place", pa.array(range(len(stored)))))
        self.duck.execute("CREATE TABLE t AS SELECT * FROM s")
        # polars' own types, in the order of the rows
        self.frame = pl.concat([frame.clear(), frame[self.file_order]])

    def close(self) -> None:
        self.duck.close()
        self.rows.close()

    def _write(self, frame: pl.DataFrame, indexes: list[tuple[str, list[str]]]) -> Any:
        chance = self.chance
        made = [
            nb.HashIndex(names)
            if kind == "hash"
            else nb.SortedIndex([sort_key(chance, name) for name in names])
            for kind, names in indexes
        ]
        self.indexes = [(i.columns, isinstance(i, nb.HashIndex)) for i in made]
        options = nb.WriteOptions(stripe_rows=chance.choice([16, 64, 4096]))
        how: dict[str, Any] = {"indexes": made, "options": options}
        if self.form == "file":
            path = self._directory / "rows.nimble"
            nb.write(frame, path, cluster_by=self.key or None, **how)
            return nb.open(path, mmap=chance.random() < 0.7)
        cuts = sorted(chance.randint(0, len(frame)) for _ in range(chance.choice([0, 1, 4])))
        pieces = [frame[a:b] for a, b in zip([0, *cuts], [*cuts, len(frame)], strict=True)]
        if self.form == "dataset":
            for i, piece in enumerate(pieces):
                path = self._directory / f"{i:03}.nimble"
                nb.write(piece, path, cluster_by=self.key or None, **how)
            return nb.open_dataset(self._directory)
        catalog = nb.connect(self._directory / "lake")
        arrow = [plain(piece.to_arrow()) for piece in pieces]
        # Iceberg has no unsigned integers of 64 bits.
        arrow = [t.set_column(t.column_names.index("n"), "n", t["n"].cast(pa.decimal128(20, 0)))
                 for t in arrow]  # fmt: skip
        arrow = [
            t.set_column(t.column_names.index("k"), "k", t["k"].cast(pa.int32())) for t in arrow
        ]
        table = catalog.create_table("a.b", arrow[0].schema, cluster_by=self.key or None, **how)
        for piece in arrow:
            table.append(piece)
        extra = arrow[0].slice(0, 3)
        if extra.num_rows:  # rows that are deleted again
            extra = extra.set_column(0, "id", pa.array(range(-len(extra), 0), pa.int64()))
            table.append(extra)
            table.delete("id < 0")
        return table

    # -------------------------------------------------------------- asking

    def ask(self, by: str, text: str, ours: Callable[[], Any], theirs: Callable[[], Any]) -> None:
        """Compares both answers; what the other side refuses is not asked."""
        try:
            expected = theirs()
        except (duckdb.Error, pl.exceptions.PolarsError):
            return
        try:
            answer = ours()
        except Exception as error:  # no question here may be refused
            answer = error
        self.asked[by] += 1
        if not same(answer, expected):
            self.different.append(Question(by, f"{self.form}, {text}", answer, expected))

    def sql(self, query: str) -> list[int]:
        return [row for (row,) in self.duck.execute(query).fetchall()]

    def run(self) -> None:
        for way in (self.filters, self.lookups, self.ranges, self.numbers, self.joins,
                    self.bridge_to_polars, self.bridge_to_duckdb):  # fmt: skip
            way()

    # -------------------------------------------------------------- filters

    def condition(self, depth: int = 2) -> str:
        chance, one = self.chance, self.chance.choice
        if depth and chance.random() < 0.6:
            a, b = self.condition(depth - 1), self.condition(depth - 1)
            return one([f"({a} AND {b})", f"({a} OR {b})", f"(NOT {a})"])
        name, op = one([n for n in VALUES if n != "b"]), one([*OPS, "IS DISTINCT FROM"])
        value = lambda: literal(one([*VALUES[name][1], *VALUES[name][2]]))  # noqa: E731
        return one([
            f"{name} {op} {value()}", f"{name} {op} {value()}", f"{name} IN ({value()}, {value()})",
            f"{name} NOT IN ({value()}, {one([value(), 'NULL'])})",
            f"{name} BETWEEN {value()} AND {value()}", f"{name} IS {one(['', 'NOT '])}NULL", "b",
            f"{one('sec')} LIKE '{one(['a%', '%b', '_', '', 'zz', '%'])}'",
            f"(k, s) {one(OPS)} ({one([-1, 1, 3])}, {one([repr('b'), repr('ab')])})",
            f"(t, k) {one(OPS)} ({literal(one(VALUES['t'][1]))}, {one([-1, 1])})",
            f"lower({one('sec')}) = 'u' AND k < x", f"k + {one([1, -2])} {one(OPS)} 1",
            f"year(t) = 2024 AND day(t) {one(OPS)} {one([1, 15, 29])}", f"length(s) {op} 2",
            f"coalesce(s, c) {op} 'v'", f"m * 2 {one(OPS)} {one(['0.2', '-6', 'k'])}",
            f"CAST(t AS DATE) {one(OPS)} d", f"CASE WHEN k > 0 THEN s ELSE c END {op} 'u'",
        ])  # fmt: skip

    def filters(self) -> None:
        chance = self.chance
        for _ in range(12):
            text = self.condition()
            limit = chance.choice([None, None, chance.randint(0, 20)])
            offset = chance.choice([0, 0, 5])
            few = chance.choice([None, ["id"], ["id", "s", "k"]])
            rows = chance.choice([1, 7, 65536])
            threads = chance.choice([1, 2])
            query = f"SELECT id FROM t WHERE {text} ORDER BY place"

            def scanned(text: Any = text, limit: Any = limit, offset: Any = offset, few: Any = few,
                        rows: Any = rows, threads: Any = threads) -> Any:  # fmt: skip
                scan = self.rows.scan(few, filter=text, limit=limit, offset=offset,
                                      batch_rows=rows, threads=threads)  # fmt: skip
                return [i for batch in scan for i in batch.column("id").to_pylist()]

            def wanted(query: str = query, limit: Any = limit, offset: int = offset) -> Any:
                return self.sql(query)[offset:][:limit]

            self.ask("scan", f"{text}, {limit=}, {offset=}", scanned, wanted)
            self.ask("count_rows", text, lambda q=text: self.rows.count_rows(q),
                     lambda q=query: len(self.sql(q)))  # fmt: skip
        begin = chance.randint(0, len(self.frame))
        end = chance.randint(begin, len(self.frame))
        text = self.condition(1)
        if self.form != "table":
            self.ask(
                "row_range", f"{text} in {begin} to {end}",
                lambda: self.rows.scan(["id"], filter=text, row_range=(begin, end)).to_table()["id"].to_pylist(),
                lambda: self.sql(f"SELECT id FROM t WHERE ({text}) AND place >= {begin} AND place < {end} ORDER BY place"),
            )  # fmt: skip
        self.ask("head", text, lambda: self.rows.head(3, ["id"], text)["id"].to_pylist(),
                 lambda: self.sql(f"SELECT id FROM t WHERE {text} ORDER BY place LIMIT 3"))  # fmt: skip
        self.ask("to_pandas", text, lambda: self.rows.to_pandas(["id"], text)["id"].tolist(),
                 lambda: self.sql(f"SELECT id FROM t WHERE {text} ORDER BY place"))  # fmt: skip
        # in no order, as tables draw them
        self.ask("sample", text, lambda: sorted(self.rows.sample(1.0, columns=["id"], filter=text)["id"].to_pylist()),
                 lambda: self.sql(f"SELECT id FROM t WHERE {text} ORDER BY id"))  # fmt: skip
        params = {"v": chance.choice(VALUES["k"][1]), "w": chance.choice(VALUES["s"][1])}
        self.ask("params", str(params),
                 lambda: self.rows.scan(["id"], filter="k = $v OR s >= $w", params=params).to_table()["id"].to_pylist(),
                 lambda: self.sql(f"SELECT id FROM t WHERE k = {params['v']} OR s >= {literal(params['w'])} ORDER BY place"))  # fmt: skip

    # -------------------------------------------------------------- keys

    def _keyed(self) -> list[tuple[list[str], Any]]:
        """Columns that have an index, and what ``on=`` says of them."""
        found: list[tuple[list[str], Any]] = []
        names = [key.column for key in self.key]
        if names:
            found.append((names, None))
            if len(names) > 1:
                found.append((names[: self.chance.randint(1, len(names))], ...))
        for columns, is_hash in self.indexes:
            on = list(columns) if is_hash else [key.column for key in columns]
            if self.form != "table":
                found.append((on, on))
        return [(list(on), on if how is ... else how) for on, how in found]

    def key_of(self, names: list[str]) -> tuple[Any, ...]:
        chance = self.chance
        if len(self.frame) and chance.random() < 0.6:
            row = self.frame.row(chance.randrange(len(self.frame)), named=True)
            return tuple(row[name] for name in names)
        return tuple(chance.choice([*VALUES[n][1], *VALUES[n][2], None]) for n in names)

    def lookups(self) -> None:
        for names, on in self._keyed():
            keys = [self.key_of(names) for _ in range(self.chance.choice([0, 1, 3, 20]))]
            given: list[Any] = [k[0] for k in keys] if len(names) == 1 else keys
            nulls = self.chance.random() < 0.5
            alike = "IS NOT DISTINCT FROM" if nulls else "="
            tests = [
                " AND ".join(f"{n} {alike} {literal(v)}" for n, v in zip(names, k, strict=True))
                for k in keys
            ]

            def wanted(tests: list[str] = tests) -> list[list[int]]:
                return [self.sql(f"SELECT id FROM t WHERE {test} ORDER BY place") for test in tests]

            shown = f"on={on or names}, {nulls=}, {given!r}"
            how: dict[str, Any] = {"on": on, "null_equals": nulls}
            self.ask("count", shown, lambda g=given, h=how: self.rows.count(g, **h).to_pylist(),
                     lambda w=wanted: [len(found) for found in w()])  # fmt: skip
            self.ask("contains", shown, lambda g=given, h=how: self.rows.contains(g, **h).to_pylist(),
                     lambda w=wanted: [bool(found) for found in w()])  # fmt: skip

            def looked_up(given: Any = given, how: Any = how) -> Any:
                found = self.rows.lookup(given, columns=["id", "s"], probe_row="at", **how)
                return [found["at"].to_pylist(), found["id"].to_pylist()]

            self.ask("lookup", shown, looked_up,
                     lambda w=wanted: [[i for i, f in enumerate(w()) for _ in f],
                                       [v for f in w() for v in f]])  # fmt: skip
            whole = on is not None or names == [key.column for key in self.key]
            for key in keys[:4] if whole else []:
                one: Any = key[0] if len(names) == 1 else key
                test = tests[keys.index(key)]
                self.ask("get", f"{shown} {one!r}",
                         lambda k=one, h=how: (self.rows.get(k, ["id"], **h) or {}).get("id"),
                         lambda q=test: next(iter(self.sql(f"SELECT id FROM t WHERE {q} ORDER BY place")), None))  # fmt: skip

            def spans(given: Any = given, how: Any = how) -> Any:
                found = self.rows.row_ranges(given, **how).to_pylist()
                return [
                    self.file_order[i] for row in found for i in range(row["begin"], row["end"])
                ]

            self.ask("row_ranges", shown, spans, lambda w=wanted: [v for f in w() for v in f])

    # -------------------------------------------------------------- ranges

    def _orders(self) -> list[tuple[list[nb.SortKey], Any]]:
        found: list[tuple[list[nb.SortKey], Any]] = [(self.key, None)] if self.key else []
        if self.form != "table":
            found += [(list(keys), list(keys)) for keys, is_hash in self.indexes if not is_hash]
        return found

    def ranges(self) -> None:
        chance = self.chance
        for keys, on in self._orders():
            names = [key.column for key in keys]
            for _ in range(4):
                lower, upper = (
                    None if chance.random() < 0.3
                    else self.key_of(names[: chance.randint(1, len(names))])
                    for _ in range(2)
                )  # fmt: skip
                sides = chance.choice(["[)", "[]", "()", "(]"])
                conditions = ["TRUE"]
                if lower is not None:
                    conditions.append(f"NOT {before(keys, lower, equal=sides[0] == '(')}")
                if upper is not None:
                    conditions.append(before(keys, upper, equal=sides[1] == "]"))
                query = (
                    f"SELECT id FROM t WHERE {' AND '.join(conditions)} ORDER BY {ordered(keys)}"
                )
                reverse, offset = chance.random() < 0.4, chance.choice([0, 0, 3])
                limit = chance.choice([None, None, 0, 5])
                how: dict[str, Any] = {"on": on, "inclusive": sides, "reverse": reverse,
                                       "offset": offset, "limit": limit}  # fmt: skip

                def wanted(query: str = query, h: Any = how) -> Any:
                    found = self.sql(query)[:: -1 if h["reverse"] else 1]
                    return found[h["offset"] :][: h["limit"]]

                self.ask("range", f"{keys} {lower!r} to {upper!r} {how}",
                         lambda a=lower, b=upper, h=how: self.rows.range(a, b, columns=["id"], **h)["id"].to_pylist(),
                         wanted)  # fmt: skip
            prefix = self.key_of(names[: chance.randint(1, len(names))])
            nulls = chance.random() < 0.5
            alike = "IS NOT DISTINCT FROM" if nulls else "="
            test = " AND ".join(
                f"{n} {alike} {literal(v)}" for n, v in zip(names, prefix, strict=False)
            )
            self.ask("prefix", f"{keys} {prefix!r} {nulls=}",
                     lambda o=on, p=prefix, n=nulls: self.rows.prefix(p, on=o, columns=["id"], null_equals=n)["id"].to_pylist(),
                     lambda q=test, k=keys: self.sql(f"SELECT id FROM t WHERE {q} ORDER BY {ordered(k)}"))  # fmt: skip
            self._pages(keys, on)

    def _pages(self, keys: list[nb.SortKey], on: Any) -> None:
        """Page after page by ``after=`` is the whole, once each key."""
        reverse, size = self.chance.random() < 0.4, self.chance.choice([1, 4, 30])
        names = [key.column for key in keys]

        def ours() -> Any:
            found, last = [], None
            for _ in range(450):
                page = self.rows.range(
                    on=on, columns=names, limit=size, reverse=reverse, after=last
                )
                if not page.num_rows:
                    break
                found += [tuple(row.values()) for row in plain(page).to_pylist()]
                last = found[-1]
            return found

        def theirs() -> Any:
            rows = self.duck.execute(f"SELECT {', '.join(names)} FROM t ORDER BY {ordered(keys)}")
            left = [tuple(row) for row in rows.fetchall()][:: -1 if reverse else 1]
            found: list[Any] = []
            while left:
                found += left[:size]
                last = found[-1]
                at = max(i for i, row in enumerate(left) if equal(row, last))
                left = left[at + 1 :]
            return found

        def equal(a: Any, b: Any) -> bool:
            return all(p == q or (p is not None and q is not None and p != p and q != q)
                       for p, q in zip(a, b, strict=True))  # fmt: skip

        self.ask(
            "pages", f"{keys} {size=} {reverse=}", lambda: zeros(ours()), lambda: zeros(theirs())
        )

    # -------------------------------------------------------------- rows by number

    def numbers(self) -> None:
        rows = [self.chance.randrange(len(self.frame)) for _ in range(9)] if len(self.frame) else []
        self.ask("take", str(rows), lambda: self.rows.take(rows, ["id"])["id"].to_pylist(),
                 lambda: [self.file_order[i] for i in rows])  # fmt: skip
        self.ask(
            "stream", "", lambda: pa.table(self.rows)["id"].to_pylist(), lambda: self.file_order
        )

    # -------------------------------------------------------------- joins

    def joins(self) -> None:
        chance = self.chance
        for names, on in self._keyed():
            if on is not None and on != names:
                continue
            keys = [self.key_of(names) for _ in range(chance.choice([0, 1, 12]))]
            probe = pl.DataFrame(
                {n: pl.Series([k[i] for k in keys], dtype=self.frame.schema[n], strict=False)
                 for i, n in enumerate(names)}
            ).with_columns(at=pl.int_range(pl.len(), dtype=pl.Int64), w=pl.lit(1.5))  # fmt: skip
            arrow = probe.to_arrow()
            if self.form == "table":  # by value, as the table has these columns
                arrow = plain(arrow)
                for name, kind in (("n", pa.decimal128(20, 0)), ("k", pa.int32())):
                    if name in names:
                        arrow = arrow.set_column(arrow.column_names.index(name), name,
                                                 arrow[name].cast(kind))  # fmt: skip
            how, nulls = chance.choice(["inner", "left", "semi", "anti"]), chance.random() < 0.4
            only = chance.choice([None, "x < w", "id % 2 = 0 OR x IS NULL"])
            alike = "IS NOT DISTINCT FROM" if nulls else "="
            test = " AND ".join(f"p.{n} {alike} t.{n}" for n in names) + (
                f" AND ({only})" if only else ""
            )
            both = how in ("inner", "left")
            source = plain(arrow)

            def ours(arrow: Any = arrow, names: Any = names, h: Any = (how, nulls, only)) -> Any:
                found = self.rows.index_join(
                    arrow, on=names, how=h[0], null_equals=h[1], condition=h[2],
                    columns=["id", "x"] if h[0] in ("inner", "left") else None)  # fmt: skip
                columns = ["at", "id"] if h[0] in ("inner", "left") else ["at"]
                return [list(row.values()) for row in found.select(columns).to_pylist()]

            def theirs(
                source: Any = source, test: str = test, how: str = how, both: bool = both
            ) -> Any:
                self.duck.register("p", source)
                columns = "p.at, t.id" if both else "p.at"
                order = "p.at, t.place" if both else "p.at"
                query = f"SELECT {columns} FROM p {how} JOIN t ON {test} ORDER BY {order}"
                return [list(row) for row in self.duck.execute(query).fetchall()]

            self.ask("index_join", f"{how} on={names} {nulls=} {only=} {keys!r}", ours, theirs)

    # -------------------------------------------------------------- bridges

    def predicate(self, depth: int = 2) -> pl.Expr:
        chance, one = self.chance, self.chance.choice
        if depth and chance.random() < 0.6:
            a, b = self.predicate(depth - 1), self.predicate(depth - 1)
            return one([lambda: a & b, lambda: a | b, lambda: ~a])()
        op = one(["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"])
        name = one([n for n in VALUES if n not in "ceb"])
        column, values = pl.col(name), VALUES[name][1]
        return one([
            lambda: getattr(column, op)(one(values)), lambda: getattr(column, op)(one(values)),
            lambda: getattr(pl.col("e"), op)(one(CATEGORIES)),
            lambda: pl.col("c") == one(["u", "v", "nope"]),
            lambda: pl.col("c").cast(pl.String).is_in(["u", "zz"]),
            lambda: pl.col("e").is_in(["u", "v"]), lambda: pl.col("k").is_in([1, 2, None]),
            lambda: pl.col(one("kxsectmnyd")).is_null(), lambda: pl.col("b"),
            lambda: pl.col("s").str.starts_with("a"), lambda: pl.col("k").is_between(-2, 3),
            lambda: pl.col("k") + 1 > pl.col("x"),
        ])()  # fmt: skip

    def bridge_to_polars(self) -> None:
        chance = self.chance
        if self.form == "table":
            lazy = self.frame.lazy().with_columns(
                pl.col("e", "c").cast(pl.String), pl.col("k").cast(pl.Int32), pl.col("n").cast(pl.Decimal(20, 0))
            )  # fmt: skip
            memory = lazy.collect()
        else:
            memory = self.frame
        for _ in range(8):
            predicate, count = self.predicate(), chance.randint(0, 50)
            start = chance.randint(0, 9)
            shape = chance.choice(["f", "hf", "fh", "sf", "fs", "tail", "group", "sort"])
            steps: dict[str, Callable[[Any], Any]] = {
                "f": lambda q, p=predicate: q.filter(p),
                "hf": lambda q, p=predicate, n=count: q.head(n).filter(p),
                "fh": lambda q, p=predicate, n=count: q.filter(p).head(n),
                "sf": lambda q, p=predicate, n=count, s=start: q.slice(s, n).filter(p),
                "fs": lambda q, p=predicate, n=count, s=start: q.filter(p).slice(s, n),
                "tail": lambda q, p=predicate, n=count: q.filter(p).select("id", "e").tail(n),
                "group": lambda q, p=predicate: q.filter(p).group_by("k").agg(pl.len(), pl.col("id").min())
                          .sort("k").select(id=pl.col("len") * 1000 + pl.col("id")),
                "sort": lambda q, p=predicate, n=count: q.filter(p).sort("e", "id").head(n),
            }  # fmt: skip

            def columns(query: Any) -> Any:
                found = query.collect()
                return found.columns, found["id"].to_list()

            step = steps[shape]
            self.ask("polars", f"{shape} {count} {start} {predicate}",
                     lambda s=step: columns(s(nb.scan_polars(self.rows))),
                     lambda s=step: columns(s(memory.lazy())))  # fmt: skip

    def bridge_to_duckdb(self) -> None:
        chance = self.chance
        with duckdb.connect() as pushed:
            pushed.execute("SET TimeZone = 'UTC'; SET threads = 1")
            nb.duckdb(pushed, v=self.rows)
            for _ in range(8):
                text = self.condition(1)
                shape = chance.choice([
                    "SELECT id FROM {} WHERE {} ORDER BY id", "SELECT count(*) FROM {} WHERE {}",
                    "SELECT max(id) FROM {} WHERE {} GROUP BY k ORDER BY ALL",
                    "SELECT a.id FROM {0} a JOIN {0} b ON a.id = b.id + 1 WHERE a.k > 0 ORDER BY 1",
                    "SELECT id FROM {} WHERE {} ORDER BY id LIMIT 3",
                ])  # fmt: skip
                # Its optimizer is DuckDB's own; what it changes is its own as well.
                self.duck.execute("PRAGMA enable_optimizer")

                def rows(query: str, connection: Any) -> Any:
                    return [row for (row,) in connection.execute(query).fetchall()]

                self.ask("duckdb", shape.format("v", text),
                         lambda q=(shape, text): rows(q[0].format("v", q[1]), pushed),
                         lambda q=(shape, text): rows(q[0].format("t", q[1]), self.duck))  # fmt: skip
                self.duck.execute("PRAGMA disable_optimizer")


def zeros(rows: list[Any]) -> list[Any]:
    """-0.0 and 0.0 are one key, of which either may be shown."""
    return [tuple(0.0 if v == 0.0 and isinstance(v, float) else v for v in row) for row in rows]


def examine(seed: int) -> Examination:
    """All questions to the rows of one seed."""
    with tempfile.TemporaryDirectory() as directory:
        examination = Examination(Path(directory), seed)
        try:
            examination.run()
        finally:
            examination.close()
    return examination


def seeds(first: int, count: int) -> Iterator[Examination]:
    return map(examine, range(first, first + count))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--seed", type=int, help="this one alone")
    args = parser.parse_args()
    first, count = (args.first, args.seeds) if args.seed is None else (args.seed, 1)
    began, asked, differences = time.process_time(), Counter[str](), 0
    for seed, found in enumerate(seeds(first, count), first):
        asked += found.asked
        differences += len(found.different)
        for by, text, ours, theirs in found.different:
            print(f"seed {seed}, {by}: {text}\n  nimblepy: {ours!r}\n  expected: {theirs!r}", flush=True)  # fmt: skip
    print(f"{count} seeds, {sum(asked.values())} questions, {differences} differences, "
          f"{time.process_time() - began:.0f} s of processor time: {dict(asked)}")  # fmt: skip
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
