"""Checks claims against the metadata of a snapshot.

Two rules apply. *Unknown is not empty*: missing metadata does not refute a claim. *Contradicted
needs a proof*: weaker evidence makes a claim suspect.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.io.lru_cache import LruCache
from nimblepy.schema.kinds import family
from nimblepy.schema.text import is_uuid_size, parse_text
from nimblepy.schema.values import place
from nimblepy.table.base.sketch import LARGEST, MOST, hashes_of
from nimblepy.table.claims.checks import Check, Checks, Observed, Status
from nimblepy.table.claims.drift import drift
from nimblepy.table.claims.facts import last_change
from nimblepy.table.claims.kinds import age_seconds
from nimblepy.table.claims.references import check_references
from nimblepy.table.claims.sketches import NoSketch
from nimblepy.table.claims.store import Stored, public_claim
from nimblepy.table.claims.subject import Lake, Subject

# Up to this many rows and files, a column is read if deleted rows leave a claim in doubt.
CONFIRMED_ROWS, CONFIRMED_FILES = 5_000_000, 200
# A difference of this many standard errors of a sketch's estimate is a proof; one standard error.
_SIGMAS, _ERROR = 5.0, 1 / math.sqrt(MOST)
# Relative difference of two sums that is not a contradiction.
_ROUNDING = 1e-9
# After this many days without a commit, a claim that a table is in use is suspect.
_IDLE_DAYS = 45
# Factors beyond which a difference is suspect: of the number of rows, of a maximum above the
# claimed one, and of a maximum below it.
_ROWS_FACTOR, _ABOVE, _BELOW = 1.5, 3.0, 20.0
# With enough rows, a maximum that is too small by this factor proves that the unit is wrong.
_FAR_BELOW, _ROWS_OF_A_UNIT = 50.0, 50
_TICKS = re.compile(r"`([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)`")
_SQL_WORDS = frozenset({"null", "true", "false", "and", "or", "not", "is", "in", "sum", "count"})
# Kinds whose status depends on the time.
_TIMED = frozenset({"fresh", "deprecated"})
_ORDER: tuple[Status, ...] = ("contradicted", "suspect", "unchecked", "unverifiable")
# Kinds that claim that values occur. An empty table does not refute them.
_OF_ROWS = frozenset({"values", "samples", "unit", "snapshot_of", "not_null"})


@dataclass(frozen=True)
class Finding:
    """The status of a claim, and what was observed."""

    status: Status
    observed: Observed | Callable[[], Observed] = (None, None)
    reason: str | None = None


VERIFIED = Finding("verified")
Rule: TypeAlias = Callable[["_Checker", Stored, Any], Finding]


def contradicted(observed: str, value: Any = None) -> Finding:
    return Finding("contradicted", (observed, value))


def unchecked(reason: str) -> Finding:
    return Finding("unchecked", reason=reason)


_kept: LruCache[list[Finding]] = LruCache(256)


def check_all(
    subject: Subject,
    lake: Lake,
    claims: Sequence[Stored] | None = None,
    *,
    deep: bool = False,
    now: dt.datetime | None = None,
) -> Checks:
    """Checks claims about a table, by default its own.

    Args:
        deep: also scan rows, for claims that metadata cannot prove.
        now: the time of the check; the default is the current time.
    """
    own = claims is None
    given = subject.claims if claims is None else claims
    checker = _Checker(subject, lake, deep, now or dt.datetime.now(dt.UTC), given)
    # Other tables and their versions are part of the key.
    key = (lake.key, *subject.version, deep, *(s and s.version for s in checker.others(given)))
    findings = _kept.get(key) if own else None
    if findings is None:
        checker.prepare(given)
        findings = [checker.finding(claim) for claim in given]
        if own:
            _kept.put(key, findings)
    else:
        findings = [
            checker.finding(claim) if _may_change(claim) else finding
            for claim, finding in zip(given, findings, strict=True)
        ]
    checks = [
        Check(
            public_claim(claim, subject.metadata, subject.schema_id),
            *(finding.status, subject.snapshot, finding.observed, finding.reason),
        )
        for claim, finding in zip(given, findings, strict=True)
    ]
    return Checks(subject.name, subject.snapshot, checks)


def _may_change(claim: Stored) -> bool:
    """Returns whether a status depends on the time, or on the names of all tables."""
    names_tables = claim.kind == "description" and bool(_TICKS.search(str(claim.value)))
    return claim.kind in _TIMED or names_tables


def names_in(text: str, subject: Subject, lake: Lake) -> list[str]:
    """Returns the names of columns and tables that a text has in backticks."""
    checker = _Checker(subject, lake, False, dt.datetime.now(dt.UTC))
    return sorted({word for word in _TICKS.findall(text) if _is_name(checker, word)})


@dataclass(eq=False)
class _Checker:
    subject: Subject
    lake: Lake
    deep: bool
    now: dt.datetime
    claims: Sequence[Stored] = ()
    _others: dict[str, Subject | None] = field(default_factory=dict)

    def other(self, name: str) -> Subject | None:
        """Returns a table of the lake by name."""
        if name not in self._others:
            same = name == self.subject.name
            self._others[name] = self.subject if same else self.lake.subject(name)
        return self._others[name]

    def others(self, claims: Iterable[Stored]) -> list[Subject | None]:
        """Returns the tables that claims name."""
        names = {_table_of(claim) for claim in claims}
        return [self.other(name) for name in sorted(name for name in names if name)]

    def prepare(self, claims: Iterable[Stored]) -> None:
        """Prepares all sketches that claims need, in one pass over new rows."""
        needed: set[int] = set()
        for claim in claims:
            if claim.kind in ("values", "samples", "references") and claim.number is not None:
                needed.add(claim.number)
            if claim.kind == "unique" and not self.is_by_construction(claim.value):
                needed |= set(claim.value)
        present = set(self.subject.facts.ids.values())
        self.subject.sketches.prepare(needed & present)

    def is_by_construction(self, numbers: Sequence[int]) -> bool:
        """Returns whether some columns contain the primary key, which nimblepy keeps unique."""
        names = {self.subject.column_name(number) for number in numbers}
        key = set(self.subject.primary_key)
        return bool(key) and key <= names and self.subject.key_is_proved

    def finding(self, claim: Stored) -> Finding:
        """Checks one claim."""
        rule = _RULES.get(claim.kind)
        if rule is None:
            return Finding("unverifiable", reason="a kind that this version does not know")
        if claim.number is not None and self.subject.column_name(claim.number) is None:
            return unchecked("this snapshot does not have the column")
        facts = self.subject.facts
        never_loaded = claim.kind == "rows" and facts.snapshot is None
        if never_loaded or (facts.rows == 0 and claim.kind in _OF_ROWS):
            return unchecked("the table has no rows")
        try:
            finding = rule(self, claim, claim.value)
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            if isinstance(error, InvalidArgumentError):
                return unchecked(str(error))
            return unchecked(f"the stored claim cannot be read: {error!r}")
        if finding.status in ("unchecked", "unverifiable") and claim.seen:
            whole = claim.number is None and claim.kind == "description"
            seen = claim.seen
            if claim.kind == "unique":
                columns = {str(n): seen["columns"][str(n)] for n in claim.value}
                seen = {**seen, "columns": columns}
            changes = drift(seen, self.subject, whole=whole)
            if changes:
                return Finding(
                    "suspect", ("; ".join(changes), changes), "changed since it was said"
                )
        return finding

    def confirms(self) -> bool:
        """Returns whether a check may read rows if metadata leave a claim in doubt."""
        few = self.subject.facts.rows <= CONFIRMED_ROWS
        return self.deep or (few and self.subject.num_files <= CONFIRMED_FILES)


def _table_of(claim: Stored) -> str | None:
    """Returns the other table that a claim names."""
    value = claim.value
    if claim.kind in ("references", "reconcile") and isinstance(value, dict):
        return str(value.get("table"))
    return value if claim.kind == "deprecated" and isinstance(value, str) else None


def typed(value: Any, kind: pa.DataType) -> pa.Scalar:
    """Converts a stored value to the type of a column.

    Raises:
        ValueError: the type cannot represent the value.
    """
    if pt.is_fixed_size_binary(kind) and isinstance(value, str):
        return pa.scalar(uuid.UUID(value).bytes, kind)
    if isinstance(value, str) and family(kind) in ("date", "instant", "time"):
        exact = place(kind, parse_text(kind, value)).exact
        if exact is None:
            raise ValueError(f"{value!r} is between two values of {kind}")
        return exact
    if pt.is_decimal(kind) and isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)
    if pt.is_string(kind) and not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    try:
        return pa.scalar(value).cast(kind)
    except OverflowError as error:
        raise ValueError(f"{value!r} is too large") from error


# ---------------------------------------------------------------------- kinds of tables


def _description(checker: _Checker, claim: Stored, text: str) -> Finding:
    codes = _codes(checker)
    findings = [
        _lost_name(checker, word, claim)
        for word in dict.fromkeys(_TICKS.findall(text))
        if word.lower() not in _SQL_WORDS and word not in codes and not _is_name(checker, word)
    ]
    findings.sort(key=lambda finding: _ORDER.index(finding.status))
    return findings[0] if findings else Finding("unverifiable")


def _lost_name(checker: _Checker, word: str, claim: Stored) -> Finding:
    """Returns the finding for a word in backticks that is no longer a name."""
    subject = checker.subject
    former = _former_column(subject, word)
    is_gone = subject.metadata.column_number(word) is None and subject.renamed(word) is None
    if is_gone and word in (claim.seen or {}).get("names", ()):
        return contradicted(f"`{word}` was a name when this was said, and is gone", word)
    return former or unchecked(f"`{word}` is neither a column nor a table")


def _former_column(subject: Subject, word: str) -> Finding | None:
    """Returns the finding for a former column name: renamed, dropped, or not in this snapshot."""
    now = subject.renamed(word)
    if now is not None:
        return Finding("suspect", (f"column `{word}` is now called `{now}`", now), "a name changed")
    if subject.metadata.column_number(word) is not None:
        return unchecked(f"this snapshot does not have the column {word}")
    if subject.had_column(word):
        return Finding("suspect", (f"column `{word}` was dropped", word), "a name is gone")
    return None


def _codes(checker: _Checker) -> set[str]:
    """Returns the values that claims list, as text."""
    return {
        str(item[0])
        for claim in (*checker.claims, *checker.subject.claims)
        if claim.kind == "values" and isinstance(claim.value, list)
        for item in claim.value
    }


def _is_name(checker: _Checker, word: str) -> bool:
    subject = checker.subject
    if subject.metadata.column_number(word, subject.schema_id) is not None:
        return True
    names = checker.lake.names()
    if word in names or any(name.startswith(f"{word}.") for name in names):
        return True
    table, _, column = word.rpartition(".")
    if not table:  # the name of a table without its namespace
        return any(name.rpartition(".")[2] == word for name in names)
    full = table if table in names else f"{subject.name.rpartition('.')[0]}.{table}"
    other = checker.other(full) if full in names else None
    return other is not None and other.metadata.column_number(column) is not None


def _unverifiable(checker: _Checker, claim: Stored, value: Any) -> Finding:
    return Finding("unverifiable")


def _unique(checker: _Checker, claim: Stored, numbers: list[int]) -> Finding:
    subject = checker.subject
    names = [subject.column_name(number) for number in numbers]
    if None in names:
        if all(subject.metadata.column_name(number) is not None for number in numbers):
            return unchecked("this snapshot does not have all columns")
        return contradicted("a column of it was dropped")
    if checker.is_by_construction(numbers):
        return VERIFIED
    columns = [subject.column(number) for number in numbers]
    sketches = [subject.sketch(number) for number in numbers]
    most_nulls = [column.nulls for column in columns]
    rows = subject.facts.rows
    if any(nulls is None for nulls in most_nulls):
        return unchecked("the metadata do not say how many nulls there are")
    valid = rows - sum(nulls for nulls in most_nulls if nulls is not None)
    # An upper bound of the number of distinct keys. If there are more rows, some share a key.
    most = 1.0
    for sketch in sketches:
        if isinstance(sketch, NoSketch):
            return _unique_deep(checker, names) or unchecked(sketch.reason)
        exact = sketch.sketch.theta == LARGEST
        most *= max(1, sketch.sketch.estimate * (1 if exact else 1 + _SIGMAS * _ERROR))
    if most < valid:
        return contradicted(
            f"at most {most:,.0f} different keys in {valid:,} rows", {"keys": most, "rows": valid}
        )
    only = sketches[0]
    if len(numbers) == 1 and not isinstance(only, NoSketch) and not only.superset:
        nulls = most_nulls[0]
        exact = only.sketch.theta == LARGEST and columns[0].nulls_exact
        if exact and only.sketch.estimate == valid:
            if nulls:
                return Finding("suspect", (f"{nulls:,} nulls", {"nulls": nulls}), "nulls")
            return VERIFIED
    return _unique_deep(checker, names) or unchecked("the number of different keys is an estimate")


def _unique_deep(checker: _Checker, names: Sequence[str | None]) -> Finding | None:
    if not checker.deep:
        return None
    columns = [str(name) for name in names]
    rows = checker.subject.handle.to_table(columns).rename_columns([str(i) for i in names])
    keys = rows.drop_null()
    twice = keys.num_rows - keys.group_by(keys.column_names).aggregate([]).num_rows
    if twice:
        return contradicted(f"{twice:,} rows have the key of another row", {"duplicates": twice})
    return VERIFIED


def _fresh(checker: _Checker, claim: Stored, text: str) -> Finding:
    subject = checker.subject
    number, metadata = subject.snapshot, subject.metadata
    shown = None if number is None else metadata.snapshot(number)
    added, is_known = last_change(metadata, shown, adds=True)
    if added is None:
        return Finding("overdue", ("it has never had rows", None))
    age = (checker.now - added).total_seconds()
    if age > age_seconds(text):
        hours = age / 3600
        passed = f"{hours:,.0f} h" if hours >= 1 else f"{age:,.0f} s"
        observed = f"rows were added {passed} ago, {text} promised"
        return Finding("overdue", (observed, {"seconds": age}))
    if not is_known:
        return unchecked("the last commit that added rows has expired")
    return VERIFIED


def _rows(checker: _Checker, claim: Stored, about: float) -> Finding:
    rows = checker.subject.facts.rows
    if about / _ROWS_FACTOR <= rows <= about * _ROWS_FACTOR:
        return VERIFIED
    return contradicted(f"{rows:,} rows", {"rows": rows})


def _deprecated(checker: _Checker, claim: Stored, by: Any) -> Finding:
    last = checker.subject.facts.last_changed
    if not isinstance(by, str):
        idle = 0 if last is None else (checker.now - last).days
        if idle > _IDLE_DAYS:
            return Finding("suspect", (f"no rows changed for {idle} days", {"days": idle}))
        return unchecked("whether people use it is not in the metadata")
    successor = checker.other(by)
    if successor is None:
        return contradicted(f"there is no table {by}")
    passed = [checker.subject.name, by]
    while (following := _successor(checker.other(passed[-1]))) is not None:
        if following in passed:
            return contradicted(f"{' -> '.join([*passed, following])} is a circle")
        passed.append(following)
    newer = successor.facts.last_changed
    if newer is None or (last is not None and last > newer):
        return Finding("suspect", (f"it was written later than {by}", None))
    return VERIFIED


def _successor(subject: Subject | None) -> str | None:
    claims = [] if subject is None else subject.claims
    named = (claim.value for claim in claims if claim.kind == "deprecated")
    return next((value for value in named if isinstance(value, str)), None)


def _rule(checker: _Checker, claim: Stored, condition: str) -> Finding:
    subject = checker.subject
    try:
        holds, breaks = subject.files_proving(condition)
    except InvalidArgumentError as error:
        for word in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", condition):
            if subject.metadata.column_number(word, subject.schema_id) is None:
                former = _former_column(subject, word)
                if former is not None:
                    return former
        return unchecked(f"the condition cannot be evaluated: {error}")
    if holds:
        return VERIFIED
    if not breaks and not checker.deep:
        return unchecked("check(deep=True) scans the rows")
    broken = subject.count(f"NOT ({condition})") if checker.deep else 0
    if broken:
        rows = subject.facts.rows
        return contradicted(f"{broken:,} of {rows:,} rows break it", {"broken": broken})
    return contradicted("rows break it, as the bounds of a file show") if breaks else VERIFIED


def _reconcile(checker: _Checker, claim: Stored, value: dict[str, Any]) -> Finding:
    other = checker.other(value["table"])
    if other is None:
        return contradicted(f"there is no table {value['table']}")
    if not checker.deep:
        return unchecked("check(deep=True) scans both tables")
    try:
        here = _aggregate(checker.subject, value["expression"])
        there = _aggregate(other, value["other_expression"])
    except InvalidArgumentError as error:  # both fitted the columns when the claim was made
        reason = str(error).split("\n")[0]
        return Finding("suspect", (reason, None), "the columns have changed")
    if math.isnan(here) or math.isnan(there):
        return unchecked(f"{here:g} here, {there:g} there")
    # Sums of floats depend on the order of the rows.
    if abs(here - there) <= max(value["within"], _ROUNDING) * abs(there):
        return VERIFIED
    return contradicted(f"{here:g} here, {there:g} there", {"here": here, "there": there})


def _aggregate(subject: Subject, expression: str) -> float:
    from nimblepy.duck.aggregate import aggregate  # loads DuckDB

    return aggregate(subject.handle.scan().to_reader(), expression)


# ---------------------------------------------------------------------- kinds of columns


def _not_null(checker: _Checker, claim: Stored, wanted: bool) -> Finding:
    assert claim.number is not None
    subject = checker.subject
    column = subject.column(claim.number)
    if not wanted:
        if column.least_nulls:
            return VERIFIED
        return Finding("suspect", ("no nulls now", 0)) if column.nulls == 0 else unchecked("nulls")
    if column.nulls == 0:
        return VERIFIED
    if column.least_nulls:
        return _nulls(column.least_nulls, subject)
    if not checker.confirms():
        return unchecked("rows were deleted, or a file does not say how many nulls it has")
    nulls = subject.count(_field(subject, claim.number).is_null())
    return _nulls(nulls, subject) if nulls else VERIFIED


def _nulls(nulls: int, subject: Subject) -> Finding:
    observed = f"{nulls:,} nulls in {subject.facts.rows:,} rows"
    return contradicted(observed, {"nulls": nulls})


def _field(subject: Subject, number: int) -> pc.Expression:
    return pc.field(*str(subject.column_name(number)).split("."))


def _range(checker: _Checker, claim: Stored, ends: list[Any]) -> Finding:
    assert claim.number is not None
    subject = checker.subject
    column = subject.column(claim.number)
    scalars = [typed(end, column.type) for end in ends]
    least, most = (scalar.as_py() for scalar in scalars)
    values = {"range": [column.lower, column.upper]}
    observed = f"{column.lower} .. {column.upper}"
    below = column.seen_lower is not None and column.seen_lower < least
    above = column.seen_upper is not None and column.seen_upper > most
    if below or above:
        return contradicted(observed, values)
    has_bounds = column.lower is not None and column.upper is not None
    if has_bounds and least <= column.lower and column.upper <= most:
        return VERIFIED
    if subject.facts.rows == 0 or column.nulls == column.least_nulls == subject.facts.rows:
        return VERIFIED
    if not checker.confirms():
        return Finding("suspect", (f"within {observed}", values), "rows were deleted")
    name = _field(subject, claim.number)
    outside = subject.count((name < scalars[0]) | (name > scalars[1]))
    if outside:
        shown = f"{outside:,} rows outside, {observed} in all"
        return contradicted(shown, {**values, "outside": outside})
    return VERIFIED


def _unit(checker: _Checker, claim: Stored, value: dict[str, Any]) -> Finding:
    assert claim.number is not None
    if "range" not in value:
        return Finding("unverifiable")
    facts, column = checker.subject.facts, checker.subject.column(claim.number)
    if column.upper is None:
        return unchecked("the metadata have no maximum")
    largest = float(typed(value["range"][1], column.type).as_py())
    upper = float(column.upper)
    values = {"range": [column.lower, column.upper], "claimed": value["range"]}
    least, most = value["range"]
    observed = f"{column.lower} .. {column.upper}; {least} .. {most} {value['unit']} expected"
    if upper > _ABOVE * largest > 0:
        seen = column.seen_upper is not None and float(column.seen_upper) > _ABOVE * largest
        return Finding("contradicted" if seen else "suspect", (observed, values))
    if 0 <= upper < largest / _BELOW:
        far = upper < largest / _FAR_BELOW and facts.rows >= _ROWS_OF_A_UNIT
        return Finding("contradicted" if far else "suspect", (observed, values))
    return VERIFIED


def _values(checker: _Checker, claim: Stored, pairs: list[list[Any]]) -> Finding:
    assert claim.number is not None
    subject, number = checker.subject, claim.number
    column = subject.column(number)
    codes = [code for code, _ in pairs if code is not None]  # sketches have no nulls
    hashes, misfits = _hashes(codes, column.type)
    if misfits:
        shown = ", ".join(map(repr, misfits))
        return _with_names(checker, number, codes, f"not values of {column.type}: {shown}")
    sketch = subject.sketch(number)
    if isinstance(sketch, NoSketch):
        return _values_deep(checker, number, codes) or unchecked(sketch.reason)
    if sketch.sketch.theta != LARGEST:
        if not sketch.superset:
            return contradicted(f"about {sketch.sketch.estimate:,} different values")
        return _values_deep(checker, number, codes) or unchecked("more than 4,096 values")
    present = set(map(int, sketch.sketch.hashes))
    unknown = present - set(hashes)
    absent = [code for hash_, code in hashes.items() if hash_ not in present]
    if unknown and sketch.superset:
        if not checker.confirms():
            observed = f"{len(unknown)} values that are not claimed, at least before a deletion"
            return Finding("suspect", (observed, {"unknown": len(unknown)}))
        return _values_read(checker, number, codes)
    if unknown:
        reason = f"{len(unknown)} of {len(present)} values are not claimed"
        return _with_names(checker, number, codes, reason)
    if absent:
        shown = ", ".join(map(repr, absent))
        return Finding("suspect", (f"no row has {shown}", {"absent": absent}))
    return VERIFIED


def _hashes(codes: Sequence[Any], kind: pa.DataType) -> tuple[dict[int, Any], list[Any]]:
    """Returns values by their hash, and the values that the column's type cannot represent."""
    fitting, scalars, misfits = [], [], []
    for code in codes:
        try:
            scalars.append(typed(code, kind))
            fitting.append(code)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError, TypeError):
            misfits.append(code)
    if not scalars:
        return {}, misfits
    array = pa.array([scalar.as_py() for scalar in scalars], kind)
    if pt.is_floating(kind):
        array = pa.array(array.to_numpy(zero_copy_only=False) + 0.0, kind)  # -0.0 is 0.0
    # Hash one value at a time, because hashes_of() returns hashes in any order.
    return {int(hashes_of(array.slice(i, 1))[0]): c for i, c in enumerate(fitting)}, misfits


def _with_names(checker: _Checker, number: int, codes: Sequence[Any], reason: str) -> Finding:
    """Returns the finding "contradicted". Reads the column only if the values are requested."""

    def observe() -> Observed:
        finding = _values_read(checker, number, codes)
        named = finding.status == "contradicted" and isinstance(finding.observed, tuple)
        return finding.observed if named else (reason, None)  # type: ignore[return-value]

    return Finding("contradicted", observe, reason)


def _values_deep(checker: _Checker, number: int, codes: Sequence[Any]) -> Finding | None:
    return _values_read(checker, number, codes) if checker.deep else None


def _values_read(checker: _Checker, number: int, codes: Sequence[Any]) -> Finding:
    """Compares the values of a column with the claimed ones. Cost: reads the column."""
    subject = checker.subject
    kind = subject.column(number).type
    most_rows = None if checker.deep else CONFIRMED_ROWS
    name = str(subject.column_name(number))
    counts, complete = subject.value_counts(name, most=MOST + 1, rows=most_rows)
    claimed = {}
    for code in codes:
        try:
            claimed[typed(code, kind).as_py()] = code
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError, TypeError):
            claimed[code] = code
    unknown = [_named(value, kind) for value in counts if value not in claimed]
    absent = [code for value, code in claimed.items() if complete and value not in counts]
    most_frequent = {_named(value, kind): count for value, count in list(counts.items())[:50]}
    values = {"unknown": unknown[:50], "absent": absent, "values": most_frequent}
    parts = []
    if unknown:
        more = f" and {len(unknown) - 10} more" if len(unknown) > 10 else ""
        where = "" if complete else f" (in {CONFIRMED_ROWS:,} rows)"
        parts.append(f"values that are not claimed: {_shown(unknown[:10])}{more}{where}")
    if absent:
        parts.append(f"no row has {_shown(absent)}")
    observed = "; ".join(parts) or "all values are claimed"
    status: Status = "contradicted" if unknown else "suspect" if absent else "verified"
    return Finding(status, (observed, values))


def _named(value: Any, kind: pa.DataType) -> Any:
    """Returns a stored value in the form that claims use: a UUID as text."""
    return str(uuid.UUID(bytes=value)) if is_uuid_size(kind) else value


def _shown(values: Iterable[Any]) -> str:
    return ", ".join(value if isinstance(value, str) else repr(value) for value in values)


def _samples(checker: _Checker, claim: Stored, samples: list[Any]) -> Finding:
    assert claim.number is not None
    subject, number = checker.subject, claim.number
    kind = subject.column(number).type
    hashes, misfits = _hashes(samples, kind)
    if misfits:
        return contradicted(f"not values of {kind}: {_shown(misfits)}", {"absent": misfits})
    sketch = subject.sketch(number)
    if isinstance(sketch, NoSketch):
        return _samples_read(checker, number, samples) if checker.deep else unchecked(sketch.reason)
    present, theta = set(map(int, sketch.sketch.hashes)), sketch.sketch.theta
    absent = [code for h, code in hashes.items() if h < theta and h not in present]
    if absent:
        return contradicted(f"no row has {_shown(absent)}", {"absent": absent})
    live = sketch.sketch if sketch.live is None else sketch.live
    if set(hashes) <= set(map(int, live.hashes)) and (sketch.live or not sketch.superset):
        return VERIFIED
    if checker.confirms():
        return _samples_read(checker, number, samples)
    return unchecked("the sketch has only some of the values")


def _samples_read(checker: _Checker, number: int, samples: Sequence[Any]) -> Finding:
    subject = checker.subject
    kind, name = subject.column(number).type, _field(subject, number)
    absent = [v for v in samples if not subject.has(name == typed(v, kind))]
    if absent:
        return contradicted(f"no row has {_shown(absent)}", {"absent": absent})
    return VERIFIED


def _references(checker: _Checker, claim: Stored, value: dict[str, Any]) -> Finding:
    assert claim.number is not None
    parent = checker.other(value["table"])
    if parent is None:
        return contradicted(f"there is no table {value['table']}")
    result = check_references(
        checker.subject, claim.number, parent, value, checker.lake, deep=checker.deep
    )
    return Finding(*result)


def _snapshot_of(checker: _Checker, claim: Stored, value: Any) -> Finding:
    assert claim.number is not None
    column = checker.subject.column(claim.number)
    if column.distinct is None:
        return unchecked("the column was not analyzed: t.analyze() does it")
    observed = f"{column.distinct:,} different values", {"distinct": column.distinct}
    if column.distinct <= 1 and column.distinct_exact:
        return Finding("suspect", observed)
    return Finding("unverifiable", observed, "whether each value has all rows is not known")


_RULES: dict[str, Rule] = {
    "description": _description,
    "synonyms": _unverifiable,
    "unique": _unique,
    "references": _references,
    "not_null": _not_null,
    "values": _values,
    "range": _range,
    "unit": _unit,
    "samples": _samples,
    "fresh": _fresh,
    "rows": _rows,
    "deprecated": _deprecated,
    "rule": _rule,
    "reconcile": _reconcile,
    "snapshot_of": _snapshot_of,
}
