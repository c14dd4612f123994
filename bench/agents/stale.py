"""Claims that have become wrong, one form per claim that can have one.

Each form is what people leave behind: a code that was renamed, another unit, a moved key, a grain
that changed, a successor that is named on the wrong table. ``swapped`` meanings are a form that no
check of values can find.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import nimblepy as nb
from bench.agents.lake import Claims


@dataclass(frozen=True)
class Place:
    """A claim of a sheet. ``column`` is ``None`` for those about the table."""

    table: str
    kind: str
    column: str | None = None


def places(claims: Claims) -> list[Place]:
    """All claims of a sheet."""
    found = []
    for table, given in claims.items():
        for name, value in given.items():
            if name != "columns":
                found.append(Place(table, "deprecated" if name == "deprecated_by" else name))
                continue
            for column, items in value.items():
                for item in items if isinstance(items, list) else [items]:
                    kind = "description" if isinstance(item, str) else item.kind
                    found.append(Place(table, kind, column))
    return found


def made_stale(claims: Claims, share: float, seed: int) -> tuple[Claims, dict[Place, str]]:
    """A sheet in which a share of the claims is wrong, and the form of each wrong one.

    ``share`` is of all claims. They are drawn from those that have a wrong form.
    """
    random_ = random.Random(seed)
    possible = [place for place in places(claims) if _wrong(claims, place, random_) is not None]
    chosen = random_.sample(possible, min(len(possible), round(share * len(places(claims)))))
    forms = {}
    stale = {table: {**given} for table, given in claims.items()}
    for place in chosen:
        made = _wrong(claims, place, random_)
        assert made is not None
        forms[place], value = made
        if place.column is None:
            name = "deprecated_by" if place.kind == "deprecated" else place.kind
            if forms[place] == "successor is the old table":
                # The claim is on the new table, and names the old one.
                stale[place.table].pop(name)
                stale[claims[place.table][name]][name] = place.table
            else:
                stale[place.table][name] = value
            continue
        columns = {**stale[place.table]["columns"]}
        items = columns[place.column]
        items = items if isinstance(items, list) else [items]
        columns[place.column] = [
            value if not isinstance(i, str) and i.kind == place.kind else i for i in items
        ]
        stale[place.table]["columns"] = columns
    return stale, forms


def _wrong(claims: Claims, place: Place, random_: random.Random) -> tuple[str, Any] | None:
    if place.column is None:
        if place.kind == "deprecated":
            return "successor is the old table", None
        if place.kind == "rows":
            return "number of rows", 4 * claims[place.table]["rows"]
        if place.kind == "unique":
            return "grain", ["customer"] if place.table == "shop.orders" else None
        return None
    items = claims[place.table]["columns"][place.column]
    items = items if isinstance(items, list) else [items]
    claim = (
        next(i for i in items if not isinstance(i, str) and i.kind == place.kind)
        if (place.kind != "description")
        else None
    )
    match claim:
        case nb.Values(meanings):
            return _wrong_values(meanings, random_)
        case nb.References(table):
            others = [n for n in ("shop.groups", "log.shipments", "ref.stores") if n != table]
            return _OTHER_KEY, nb.References(random_.choice(others))
        case nb.Unit("cent", ends) if ends is not None:
            return "unit", nb.Unit("euro", range=(0, ends[1] // 100))
        case nb.Unit("millisecond", ends) if ends is not None:
            return "unit", nb.Unit("second", range=(0, ends[1] // 1000))
        case nb.Unit("gram", ends) if ends is not None:
            return "unit", nb.Unit("kilogram", range=(0, ends[1] // 1000))
        case nb.Range(lower, upper):
            return "range", nb.Range(lower, upper - 1)
        case nb.Samples():
            return "samples", nb.Samples(["no such value"])
        case nb.NotNull(value):
            return _NULLS, nb.NotNull(not value)
        case nb.SnapshotOf():
            return None
    return None


def _wrong_values(meanings: Any, random_: random.Random) -> tuple[str, Any]:
    pairs: list[tuple[Any, Any]] = list(dict(meanings).items())
    form = random_.choice(["renamed code", "missing code", "renamed code", "swapped meanings"])
    at = random_.randrange(len(pairs))
    if form == "renamed code":
        code = pairs[at][0]
        pairs[at] = (code + 100 if isinstance(code, int) else f"{code}{code}", pairs[at][1])
    elif form == "missing code":
        del pairs[at]
    else:
        other = (at + 1) % len(pairs)
        (a, b), (c, d) = pairs[at], pairs[other]
        pairs[at], pairs[other] = (a, d), (c, b)
    return form, nb.Values(dict(pairs))


_OTHER_KEY, _NULLS = "key of another table", "nulls"
# Forms that no check of the values can find.
OUT_OF_SCOPE = frozenset(
    {
        "swapped meanings",
        f"{_OTHER_KEY}, which has all values",
        f"{_NULLS} allowed, but there are none",
    }
)


def told_apart(forms: Mapping[Place, str], claims: Claims, lake: nb.Catalog) -> dict[Place, str]:
    """Gives wrong claims that agree with all values a form of their own.

    All values are read, so this does not depend on the checks.
    """
    apart = {**forms}
    for place, form in forms.items():
        if form not in (_OTHER_KEY, _NULLS) or place.column is None:
            continue
        items = claims[place.table]["columns"][place.column]
        items = items if isinstance(items, list) else [items]
        claim = next(i for i in items if not isinstance(i, str) and i.kind == place.kind)
        values = set(lake.table(place.table).to_table([place.column]).column(0).to_pylist())
        if isinstance(claim, nb.References):
            parent = lake.table(claim.table)
            keys = parent.to_table(parent.primary_key[:1]).column(0).to_pylist()
            if values - {None} <= set(keys):
                apart[place] = f"{_OTHER_KEY}, which has all values"
        elif isinstance(claim, nb.NotNull) and not claim.value and None not in values:
            apart[place] = f"{_NULLS} allowed, but there are none"
    return apart


def found(forms: Mapping[Place, str], checks: Mapping[str, nb.Checks]) -> dict[Place, str]:
    """The status of each wrong claim."""
    statuses = {}
    for place in forms:
        table = place.table
        if forms[place] == "successor is the old table":
            # The claim is on the successor now.
            table = next(
                name
                for name, of in checks.items()
                for check in of
                if check.claim.kind == "deprecated" and check.claim.value == place.table
            )
        statuses[place] = next(
            check.status
            for check in checks[table]
            if (check.claim.kind, check.claim.column) == (place.kind, place.column)
        )
    return statuses
