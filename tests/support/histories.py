"""Histories of concurrent changes of a table, run in chosen interleavings and checked.

A history is a table and some operations of each of two or three writers. Writers are threads, of
which one runs at a time: each stops before an operation, in the middle of reading its data or of
a transaction, and before its first two swaps, when the others may go on. So a schedule, which
writer goes on at each stop, makes a deterministic execution. Its results and final rows must be
those of a serial order of its operations, see :mod:`serial_order`.

    PYTHONPATH=tests/support python -m histories --executions 10000 --seed 1
    PYTHONPATH=tests/support python -m histories --replay '{"history": ..., "schedule": [...]}'
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from serial_order import COLUMNS, Done, Filter, Op, Row, State, Table, serial_order, sql

import nimblepy as nb
from nimblepy.table import distributed
from nimblepy.table.testing import commit_hooks
from nimblepy.table.writing import commit

# Swaps of an operation at which it stops. After so many lost races it holds the catalog's lock.
_STOPS = 2
_SECONDS = 60.0

History = dict[str, Any]


# ------------------------------------------------------------------ random histories


class Maker:
    """Makes random histories; the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._number = 0

    def history(self, writers: int, operations: int) -> History:
        some = self._random
        keyed = some.random() < 0.5
        # Expiry may forget the snapshot that a rollback goes to.
        self._rare = "rollback" if some.random() < 0.5 else "expire"
        # Half of the keys and filters are these, so that operations meet.
        self._hot_key, self._hot_filter = some.randrange(4), self._any_filter()
        return {
            "keyed": keyed,
            "data_format": some.choice(["nimble", "parquet"]),
            "partition_by": some.choice([[], [], ["g"], ["v"]]),
            "rows": [self._rows(keyed) for _ in range(some.choice([1, 1, 2]))],
            "writers": [
                [self._op(keyed) for _ in range(some.randint(1, operations))]
                for _ in range(writers)
            ],
        }

    def _key(self) -> int:
        return self._hot_key if self._random.random() < 0.5 else self._random.randrange(4)

    def _row(self, key: int) -> list[int]:
        return [key, self._random.randrange(2), self._random.randrange(2)]

    def _rows(self, unique: bool, most: int = 3) -> list[list[int]]:
        count = self._random.randint(1, most)
        keys = [self._key() for _ in range(count)]
        return [self._row(key) for key in (dict.fromkeys(keys) if unique else keys)]

    def _filter(self) -> list[list[Any]]:
        return self._hot_filter if self._random.random() < 0.5 else self._any_filter()

    def _any_filter(self) -> list[list[Any]]:
        some = self._random
        column, how = some.choice(
            [("v", "="), ("v", "="), ("v", ">="), ("g", "="), ("k", "="), ("k", "<"), ("v", "<>")]
        )
        found = [[column, how, some.randrange(4 if column == "k" else 2)]]
        if some.random() < 0.2:
            found.append(["g", "=", some.randrange(2)])
        return found

    def _condition(self) -> Filter:
        return [["v", ">=", 1]] if self._random.random() < 0.3 else None

    def _op(self, keyed: bool) -> Op:
        some = self._random
        kinds = {
            "append": 3,
            "delete": 4,
            "overwrite": 3,
            "merge": 4,
            "transaction": 6,
            "dynamic": 2,
            "alter": 0.7,
            "rename": 1,
            "partition": 2,
            "compact": 1,
            "manifests": 0.5,
            self._rare: 0.7,
        }
        if keyed:
            kinds |= {"upsert": 5, "staged upsert": 1, "delete keys": 2}
        kind = some.choices(list(kinds), list(kinds.values()))[0]
        op = self._filled(kind, keyed)
        if "rows" in op and kind not in ("dynamic", "staged upsert") and some.random() < 0.3:
            op["slow"] = True
        if kind in ("append", "delete", "overwrite", "merge", "dynamic") and some.random() < 0.15:
            op["batch"] = ["feed", some.randrange(2)]
        return op

    def _filled(self, kind: str, keyed: bool) -> Op:
        some = self._random
        if kind in ("append", "dynamic", "staged upsert"):
            return {"op": kind, "rows": self._rows(keyed)}
        if kind == "upsert":
            return self._upsert()
        if kind == "delete":
            return {"op": kind, "filter": self._filter()}
        if kind == "delete keys":
            return {"op": "delete", "keys": sorted({self._key(), self._key()})}
        if kind == "overwrite":
            filter = None if some.random() < 0.2 else self._filter()
            return {"op": kind, "rows": self._rows(keyed), "filter": filter}
        if kind == "merge":
            op: Op = {"op": kind, "rows": self._rows(True), "by_source": []}
            what = some.choice([[], ["update"], ["add"], ["delete"], ["delete", "update"]])
            op["matched"] = [{"do": do, "if": self._condition()} for do in what]
            op["not_matched"] = [{"if": self._condition()}] if some.random() < 0.7 else []
            if some.random() < 0.2 or not (op["matched"] or op["not_matched"]):
                op["by_source"] = [{"if": [["v", "=", some.randrange(2)]]}]
            return op
        if kind == "transaction":
            steps = [self._read(keyed) for _ in range(some.randint(0, 2))]
            if keyed and some.random() < 0.4:
                steps.append(self._refusable())
            steps += [self._write(keyed) for _ in range(some.randint(1, 2))]
            return {"op": kind, "steps": steps}
        if kind == "alter":
            self._number += 1
            return {"op": kind, "column": f"x{self._number}"}
        if kind == "rename":
            return {"op": kind, "column": some.choice(["v", "v", "n"])}
        if kind == "partition":
            return {"op": kind, "by": some.choice([[], ["g"], ["v"]])}
        return {"op": kind}

    def _upsert(self) -> Op:
        how = self._random.choice(["update", "ignore", "error", "part"])
        op = {"op": "upsert", "rows": self._rows(True)}
        return op | ({"update": True} if how == "part" else {"when_matched": how})

    def _read(self, keyed: bool) -> Op:
        some = self._random
        kind = some.choice(["lookup", "contains", "count", "scan", *(["get"] * keyed)])
        if kind == "get":
            return {"op": kind, "key": self._key()}
        if kind in ("lookup", "contains"):
            return {"op": kind, "keys": sorted({self._key(), self._key()})}
        return {"op": kind, "filter": None if some.random() < 0.1 else self._filter()}

    def _refusable(self) -> Op:
        some = self._random
        if some.random() < 0.5:
            return {"op": "append", "rows": self._rows(True, 1)}
        op: Op = {"op": "upsert", "rows": self._rows(True, 2)}
        return op | ({"update": True} if some.random() < 0.5 else {"when_matched": "error"})

    def _write(self, keyed: bool) -> Op:
        some = self._random
        kind = some.choice(["append", "delete", *(["upsert", "delete keys"] * keyed)])
        if kind == "append":
            return {"op": kind, "rows": self._rows(keyed)}
        if kind == "delete":
            return {"op": kind, "filter": self._filter()}
        if kind == "delete keys":
            return {"op": "delete", "keys": [self._key()]}
        return self._upsert()


# ------------------------------------------------------------------ one execution


class Writer(threading.Thread):
    """A thread that runs operations, and stops where others may go on."""

    def __init__(self, run: Callable[[Writer], None]) -> None:
        super().__init__(daemon=True)
        self._run = run
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self.stops_left = 0
        self.is_over = False
        self.failed: BaseException | None = None

    def run(self) -> None:
        self._go.acquire()
        _current.writer = self
        try:
            self._run(self)
        except BaseException as error:
            self.failed = error
        self.is_over = True
        self._stopped.release()

    def stop(self) -> None:
        """Lets others go on; called by the thread itself."""
        self._stopped.release()
        self._go.acquire()

    def resume(self) -> None:
        """Lets the thread go on to its next stop; called by the scheduler."""
        self._go.release()
        if not self._stopped.acquire(timeout=_SECONDS):
            raise AssertionError("a writer waits for another one")


class _Current(threading.local):
    writer: Writer | None = None


_current = _Current()


def _before_swap() -> None:
    writer = _current.writer
    if writer is not None and writer.stops_left:
        writer.stops_left -= 1
        writer.stop()


@contextlib.contextmanager
def stopping_before_swaps() -> Iterator[None]:
    """Executions run in here."""
    wait = commit._FIRST_WAIT
    commit._FIRST_WAIT = 0.0
    try:
        with commit_hooks(before_swap=_before_swap):
            yield
    finally:
        commit._FIRST_WAIT = wait


SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("v", pa.int64()),
        pa.field("g", pa.int64()),
        pa.field("n", pa.int64(), nullable=False),
    ]
)


def _names(table: nb.Table) -> dict[str, str]:
    """What a table calls the columns now; it numbered them when it was made."""
    now = {field.field_id: field.name for field in table.iceberg.schema().fields}
    return {name: now[1 + i] for i, name in enumerate(SCHEMA.names)}


def _data(
    rows: Sequence[Sequence[int]], names: Mapping[str, str], *, part: bool = False
) -> pa.Table:
    columns = [[row[i] for row in rows] for i in range(len(COLUMNS))]
    made = pa.table([*columns, [0] * len(rows)], schema=SCHEMA)
    made = made.rename_columns([names[name] for name in made.column_names])
    return made.select([names["k"], names["v"]]) if part else made


class Start:
    """The table with which the executions of a history begin.

    It is made once. Each execution registers its metadata under a new name, which is the only one,
    and adds files. If an operation removes files, the table is made for each execution.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        kinds = {op["op"] for ops in history["writers"] for op in ops}
        self._shared = "expire" not in kinds
        self._place = self._name = ""
        self.rows: tuple[Row, ...] = ()
        self.snapshot: int | None = None

    def open(self, lake: nb.Catalog, name: str) -> None:
        """Makes the table of this name."""
        if self._place:
            lake.drop_table(self._name)
            lake.register(name, self._place)
        else:
            self._make(lake, name)
        self._name = name

    def _make(self, lake: nb.Catalog, name: str) -> None:
        keyed = self._history["keyed"]
        table = lake.create_table(
            name,
            SCHEMA,
            primary_key="k" if keyed else None,
            cluster_by="k",
            partition_by=self._history["partition_by"],
            data_format=self._history["data_format"],
        )
        rows: list[Row] = []
        for part in self._history["rows"]:
            new = [row for row in part if not keyed or row[0] not in {r[0] for r in rows}]
            if new:
                table.append(_data(new, _names(table)))
            rows += [tuple(row) for row in new]
        self.rows, self.snapshot = tuple(rows), table.snapshot
        if self._shared:
            self._place = table.metadata_location


@dataclass
class Execution:
    """A history in one interleaving.

    Attributes:
        schedule: (how many writers could go on, which of them did) at each stop.
        done: what took effect.
        conflicts: operations that raised ConflictError.
    """

    history: History
    lake: nb.Catalog
    name: str
    schedule: list[tuple[int, int]] = field(default_factory=list)
    done: list[Done] = field(default_factory=list)
    conflicts: int = 0

    def run(self, start: Start, choose: Callable[[int], int]) -> None:
        """Raises AssertionError if no serial order explains it."""
        history = self.history
        start.open(self.lake, self.name)
        rows, self._first = start.rows, start.snapshot
        self._ticks = 0
        writers = [
            Writer(lambda writer, ops=ops: self._work(writer, ops))  # type: ignore[misc]
            for ops in history["writers"]
        ]
        for writer in writers:
            writer.start()
        while waiting := [writer for writer in writers if not writer.is_over]:
            at = choose(len(waiting))
            self.schedule.append((len(waiting), at))
            waiting[at].resume()
        for writer in writers:
            if writer.failed is not None:
                raise AssertionError(f"unexpected error: {writer.failed!r}") from writer.failed
        newest = self.lake.table(self.name)
        columns = [_names(newest)[name] for name in COLUMNS]
        final = [tuple(row.values()) for row in newest.to_table(columns).to_pylist()]
        assert newest.num_rows == len(final), "num_rows"
        model = Table(history["keyed"], State(rows))
        order = serial_order(model, self.done, final)
        assert order is not None, f"no serial order gives these results and rows: {sorted(final)}"

    def _work(self, writer: Writer, operations: Sequence[Op]) -> None:
        table = self.lake.table(self.name)
        for number, op in enumerate(operations):
            if number:
                writer.stop()
            writer.stops_left = _STOPS
            self._ticks += 1
            begin = self._ticks
            table.refresh()
            logical = {now: name for name, now in _names(table).items()}
            bound = tuple(logical[name] for name in table.partition_by)
            try:
                result = _result(table, op, writer, self._first)
            except nb.ConflictError:
                self.conflicts += 1
                continue
            except (nb.DuplicateKeyError, nb.InvalidArgumentError) as error:
                if op["op"] in ("rename", "partition"):  # it does not fit, and changes nothing
                    continue
                result = [type(error).__name__]
            self._ticks += 1
            self.done.append(Done(op, result, begin, self._ticks, bound))


def _source(op: Op, writer: Writer, names: Mapping[str, str]) -> Any:
    data = _data(op["rows"], names, part=bool(op.get("update")))
    if not op.get("slow"):
        return data

    def batches() -> Iterator[pa.RecordBatch]:
        if _current.writer is writer:
            writer.stop()
        yield from data.to_batches()

    return pa.RecordBatchReader.from_batches(data.schema, batches())


def _how(op: Op, names: Mapping[str, str]) -> dict[str, Any]:
    return {"update": [names["v"]]} if op.get("update") else {"when_matched": op["when_matched"]}


def _result(table: nb.Table, op: Op, writer: Writer, first: int | None) -> Any:
    """Runs an operation: what it gives, as :func:`serial_order.applied` says it."""
    kind, names = op["op"], _names(table)
    more: dict[str, Any] = {"batch": tuple(op["batch"])} if "batch" in op else {}
    if kind == "append":
        made = table.append(_source(op, writer, names), **more)
    elif kind == "upsert":
        made = table.upsert(_source(op, writer, names), **_how(op, names))
    elif kind == "delete" and "keys" in op:
        made = table.delete(keys=op["keys"])
    elif kind == "delete":
        made = table.delete(sql(op["filter"], names), **more)
    elif kind == "overwrite":
        made = table.overwrite(_source(op, writer, names), filter=sql(op["filter"], names), **more)
    elif kind == "merge":
        made = _merged(table, op, writer, names, more)
    elif kind in ("dynamic", "staged upsert"):
        files = distributed.write_rows(_data(op["rows"], names), distributed.write_target(table))
        writer.stop()
        how: dict[str, Any] = {"mode": "upsert"}
        if kind == "dynamic":
            how = {"mode": "overwrite", "partition_overwrite": "dynamic"}
        made = distributed.commit_files(table, files, **how, **more)
    elif kind == "transaction":
        return ["ok", _in_transaction(table, op["steps"], writer)]
    else:
        _kept(table, op, first)
        return ["ok"]
    return ["ok", made.rows_inserted, made.rows_updated, made.rows_deleted]


def _kept(table: nb.Table, op: Op, first: int | None) -> None:
    """An operation that gives nothing."""
    kind = op["op"]
    if kind == "rollback":
        assert first is not None
        table.rollback(first)
    elif kind == "expire":
        table.expire(keep=1)
    elif kind == "compact":
        table.compact(where_needed=False)
    elif kind == "manifests":
        table.rewrite_manifests()
    else:
        with table.alter() as a:
            names = _names(table)
            if kind == "alter":
                a.add_column(op["column"], pa.int32())
            elif kind == "rename":
                old = op["column"]
                a.rename_column(names[old], f"{old}2" if names[old] == old else old)
            else:
                a.partition_by(*(names[name] for name in op["by"]))


def _merged(
    table: nb.Table, op: Op, writer: Writer, names: Mapping[str, str], more: dict[str, Any]
) -> nb.Commit:
    merge = table.merge(_source(op, writer, names), on="k", **more)
    for clause in op["matched"]:
        how: dict[str, dict[str, Any]] = {
            "update": {"update": True},
            "add": {"update": {names["v"]: f"target.{names['v']} + source.{names['v']}"}},
            "delete": {"delete": True},
        }
        what = how[clause["do"]]
        merge = merge.when_matched(**what, condition=sql(clause["if"], names, "source."))
    for clause in op["not_matched"]:
        merge = merge.when_not_matched(condition=sql(clause["if"], names, "source."))
    for clause in op["by_source"]:
        merge = merge.when_not_matched_by_source(
            delete=True, condition=sql(clause["if"], names, "target.")
        )
    return merge.execute()


def _in_transaction(table: nb.Table, steps: Sequence[Op], writer: Writer) -> list[Any]:
    given: list[Any] = []
    names = _names(table)
    with table.transaction() as tx:
        for step in steps:
            try:
                given.append(_step(tx, step, names))
            except (nb.DuplicateKeyError, nb.InvalidArgumentError) as error:
                given.append(type(error).__name__)
        writer.stop()
    return given


def _step(tx: Any, step: Op, names: Mapping[str, str]) -> Any:
    kind, columns = step["op"], [names[name] for name in COLUMNS]
    if kind == "get":
        found = tx.get(step["key"], columns=columns)
        return None if found is None else tuple(found.values())
    if kind == "lookup":
        return sorted(
            tuple(r.values()) for r in tx.lookup(step["keys"], columns=columns).to_pylist()
        )
    if kind == "contains":
        return tx.contains(step["keys"]).to_pylist()
    if kind == "count":
        return tx.count_rows(sql(step["filter"], names))
    if kind == "scan":
        rows = tx.scan(columns, filter=sql(step["filter"], names)).to_table()
        return sorted(tuple(row.values()) for row in rows.to_pylist())
    if kind == "append":
        tx.append(_data(step["rows"], names))
    elif kind == "upsert":
        tx.upsert(_data(step["rows"], names, part=bool(step.get("update"))), **_how(step, names))
    elif "keys" in step:
        tx.delete(keys=step["keys"])
    else:
        tx.delete(sql(step["filter"], names))
    return "ok"


# ------------------------------------------------------------------ many executions


class Failure(AssertionError):
    """An execution that no serial order explains."""

    def __init__(self, execution: Execution, error: AssertionError) -> None:
        case = {"history": execution.history, "schedule": [at for _, at in execution.schedule]}
        done = "\n".join(
            f"  {item.begin}-{item.end} {item.op} -> {item.result}" for item in execution.done
        )
        super().__init__(f"{error}\ntook effect:\n{done}\nreplay: {json.dumps(case)}")
        self.history = execution.history


class Runner:
    """Runs histories, each in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._number = 0
        self.executions = self.conflicts = self.operations = 0

    def explore(self, history: History, most: int, seed: int | None) -> None:
        """Runs a history in all interleavings, up to ``most``; with a seed, in random ones."""
        self._number += 1
        place = self._directory / f"h{self._number}"
        lake = nb.connect(place)
        try:
            prefix: list[int] | None = []
            start, some = Start(history), random.Random(seed)
            for number in range(most):
                if prefix is None:
                    return
                execution = Execution(history, lake, f"a.t{number}")
                if seed is None:
                    self._run(execution, start, _following(prefix))
                    prefix = _next(execution.schedule)
                else:
                    self._run(execution, start, some.randrange)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def replay(self, history: History, schedule: Sequence[int]) -> Execution:
        execution = Execution(history, nb.connect(self._directory / "replay"), "a.t")
        self._run(execution, Start(history), _following(schedule))
        return execution

    def _run(self, execution: Execution, start: Start, choose: Callable[[int], int]) -> None:
        self.executions += 1
        try:
            execution.run(start, choose)
        except AssertionError as error:
            raise Failure(execution, error) from error
        self.conflicts += execution.conflicts
        self.operations += len(execution.done)


def _following(prefix: Sequence[int]) -> Callable[[int], int]:
    left = list(prefix)
    return lambda count: min(left.pop(0), count - 1) if left else 0


def _next(schedule: Sequence[tuple[int, int]]) -> list[int] | None:
    """The schedule after one, in depth-first order."""
    for at in range(len(schedule) - 1, -1, -1):
        count, chosen = schedule[at]
        if chosen + 1 < count:
            return [*(c for _, c in schedule[:at]), chosen + 1]
    return None


def explore_seed(runner: Runner, seed: int, most: int) -> None:
    """One history: of two writers in all interleavings, or a larger one in some of them."""
    maker = Maker(seed)
    shape = seed % 10
    if shape < 6:
        runner.explore(maker.history(2, 1), most, None)
    elif shape < 8:
        runner.explore(maker.history(2, 2), most // 2, seed)
    else:
        runner.explore(maker.history(3, 2 if shape == 9 else 1), most // 2, seed)


def smaller(history: History) -> Iterator[History]:
    """Histories with an operation, a step or a row less."""
    copy = json.dumps(history)
    for w, ops in enumerate(history["writers"]):
        for o, op in enumerate(ops):
            if len(ops) > 1:
                made = json.loads(copy)
                del made["writers"][w][o]
                yield made
            for name in ("steps", "rows", "matched", "not_matched"):
                for i in range(len(op.get(name, ())) if len(op.get(name, ())) > 1 else 0):
                    made = json.loads(copy)
                    del made["writers"][w][o][name][i]
                    yield made
            for name in ("slow", "batch"):
                if name in op:
                    made = json.loads(copy)
                    del made["writers"][w][o][name]
                    yield made
    for p, part in enumerate(history["rows"]):
        for i in range(len(part)):
            made = json.loads(copy)
            del made["rows"][p][i]
            yield made
    if len(history["writers"]) > 2:
        for w in range(len(history["writers"])):
            made = json.loads(copy)
            del made["writers"][w]
            yield made


def shrunk(runner: Runner, failure: Failure, seconds: float = 120.0) -> Failure:
    """The smallest failing case that is found in some time."""
    end = time.monotonic() + seconds
    found = True
    while found and time.monotonic() < end:
        found = False
        for history in smaller(failure.history):
            try:
                runner.explore(history, 80, None)
            except Failure as error:
                failure, found = error, True
                break
            if time.monotonic() > end:
                break
    return failure


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--executions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1, help="of the first history")
    parser.add_argument("--most", type=int, default=40, help="interleavings of a history")
    parser.add_argument("--failures", type=int, default=1, help="stop after so many")
    parser.add_argument("--replay", help="a case as a failure prints it")
    given = parser.parse_args()
    failures = 0
    begin = time.monotonic()
    root = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=root) as directory, stopping_before_swaps():
        runner = Runner(Path(directory))
        if given.replay:
            case = json.loads(given.replay)
            execution = runner.replay(case["history"], case["schedule"])
            print("serializable:", [(d.op["op"], d.result) for d in execution.done])
            return 0
        seed, shown = given.seed, 0
        while runner.executions < given.executions:
            try:
                explore_seed(runner, seed, given.most)
            except Failure as failure:
                failures += 1
                print(f"seed {seed}: {failure}\n", flush=True)
                if failures >= given.failures:
                    print(f"smallest: {shrunk(Runner(Path(directory)), failure)}", flush=True)
                    break
            seed += 1
            if runner.executions // 500 > shown:
                shown = runner.executions // 500
                print(
                    f"{runner.executions} executions, seeds {given.seed} to {seed - 1}, "
                    f"{runner.operations} operations, {runner.conflicts} conflicts, "
                    f"{time.monotonic() - begin:.0f} s",
                    flush=True,
                )
    print(f"{runner.executions} executions, {failures} failures", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
