"""Tables of other tools are written, read back in every way, and compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from answers import pick
from exact import assert_same_table

import nimblepy as nb

SMALL = 300  # rows, up to which a table is also sorted and picked row by row


def check_comes_back(table: pa.Table, path: str) -> None:
    """Writes the table with several options and reads it in every way."""
    n = max(70, table.num_rows // 4)
    cut: dict[str, Any] = {"stripe_rows": n, "group_rows": 2 * n, "zone_rows": n // 7}
    for layout in ({}, {**cut, "compression": "compact"}):
        nb.write(table, path, options=nb.WriteOptions(**layout))
        with nb.open(path) as file:
            file.verify()
            assert_same(file.to_table(), table)
            rows = np.random.default_rng(0).integers(0, max(table.num_rows, 1), 40)
            if table.num_rows > 0:
                assert_same(file.take(rows), pick(table, rows.tolist()))
    if 0 < table.num_rows <= SMALL:
        _check_sorted(table, path)


def _check_sorted(table: pa.Table, path: str) -> None:
    """The writer moves every row when it sorts: another way into each column."""
    order = np.random.default_rng(1).permutation(table.num_rows)
    keyed = table.append_column("the key", pa.array(np.argsort(order)))
    nb.write(keyed, path, cluster_by="the key", options=nb.WriteOptions(stripe_rows=90))
    with nb.open(path) as file:
        assert_same(file.to_table(), pick(keyed, order.tolist()))
        found = file.lookup(pa.array([3, 0, 3]))
        assert_same(found, pick(keyed, [int(order[k]) for k in (3, 0, 3) if k < len(order)]))


def assert_same(got: pa.Table, want: pa.Table) -> None:
    """Schema and values. Chunks whose dictionaries differ are compared by the values they name:
    a file has one dictionary a column.
    """
    want = _through_c_interface(want)
    assert got.schema.equals(want.schema, check_metadata=True)
    for field in want.schema:
        one, other = got.select([field.name]), want.select([field.name])
        if _has_dictionary(field.type):
            one.validate(full=True)
            # as text: NaN is not equal to itself
            assert repr(one.to_pylist()) == repr(other.to_pylist()), field
        else:
            assert_same_table(one, other)


def _through_c_interface(table: pa.Table) -> pa.Table:
    """Importing any type from C, pyarrow calls the fields of a map `key` and `value`."""
    schema = pa.Schema._import_from_c_capsule(table.schema.__arrow_c_schema__())
    if table.num_columns == 0 or schema.equals(table.schema, check_metadata=True):
        return table
    return pa.table(table.columns, schema=schema)


def _has_dictionary(type_: pa.DataType) -> bool:
    if isinstance(type_, pa.BaseExtensionType):
        return _has_dictionary(type_.storage_type)
    if pat.is_dictionary(type_):
        return True
    return any(_has_dictionary(type_.field(i).type) for i in range(type_.num_fields))
