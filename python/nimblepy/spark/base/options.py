"""Options of the data source. Arguments that are not text are encoded as JSON and Arrow IPC.

Anyone who can write SQL can set options (``CREATE TEMP VIEW v USING nimble OPTIONS (...)``). This
module must therefore never execute code from an option; in particular, it does not use pickle.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.filter import BoundText
from nimblepy.file.options import HashIndex, SortedIndex
from nimblepy.files.listing import FileList
from nimblepy.rows.arguments import at_least
from nimblepy.schema.types import SortKey, pack_sort_keys, parse_sort_keys, unpack_sort_keys
from nimblepy.schema.values import show
from nimblepy.spark.base.inputs import InputFiles, InputTable, SparkInput

# Internal options: `scan` and `write` of this package use them for arguments that are not text.
SCAN_OPTION = "nimblescan"
INDEXES_OPTION = "nimbleindexes"
# Set for scans that the optimizer must not replace by lookups.
JOIN_OPTION = "nimblejoin"
_INTERNAL = (SCAN_OPTION, INDEXES_OPTION, JOIN_OPTION)


def pack_scan(
    files: SparkInput,
    filter: str | BoundText | pc.Expression | None,
    key_range: tuple[Any, Any, str] | None,
    keys: pa.Table | None,
) -> str:
    """Encodes the arguments of a scan as the text of an option."""
    packed: dict[str, Any]
    if isinstance(files, InputTable):
        packed = {"table": files.name, "files": files.text}
    else:
        packed = {"directory": files.directory, "files": _from_table(files.files.to_arrow())}
    if isinstance(filter, pc.Expression):
        packed["expression"] = _from_bytes(filter.__reduce__()[1][0])
    elif isinstance(filter, BoundText):
        packed["filter"] = filter.text
        named = isinstance(filter.params, Mapping)
        values = filter.params if isinstance(filter.params, Mapping) else dict(
            enumerate(filter.params)
        )  # fmt: skip
        columns = {str(name): _one_value(value) for name, value in values.items()}
        packed["params"] = [named, _from_table(pa.table(columns))]
    elif filter is not None:
        packed["filter"] = filter
    if key_range is not None:
        lower, upper, inclusive = key_range
        packed["key_range"] = [_from_bound(lower), _from_bound(upper), inclusive]
    if keys is not None:
        packed["keys"] = _from_table(keys)
    return json.dumps(packed)


def _one_value(value: object) -> pa.Array:
    """A parameter as a column of one row."""
    if isinstance(value, (set, frozenset)):
        value = list(value)
    try:
        return pa.array([value])
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"params: {show(value)} cannot be sent: {error}") from error


def unpack_scan(text: str) -> dict[str, Any]:
    """Decodes the arguments that :func:`pack_scan` encoded.

    Raises:
        InvalidArgumentError: the text was not made by ``pack_scan``.
    """
    try:
        packed = json.loads(text)
        arguments: dict[str, Any] = {"filter": packed.get("filter")}
        if "params" in packed:
            named, table = packed["params"]
            values = {name: _to_table(table)[name][0] for name in _to_table(table).schema.names}
            params: Any = values if named else list(values.values())
            arguments["filter"] = BoundText(str(packed["filter"]), params)
        arguments["files"] = _unpacked_input(packed)
        if "expression" in packed:
            # Arrow's own format, which holds function names and literals but no code.
            arguments["filter"] = pc.Expression._deserialize(
                pa.py_buffer(_to_bytes(packed["expression"]))
            )
        if "key_range" in packed:
            lower, upper, inclusive = packed["key_range"]
            arguments["key_range"] = (_to_bound(lower), _to_bound(upper), str(inclusive))
        if "keys" in packed:
            arguments["keys"] = _to_table(packed["keys"])
        return arguments
    except (KeyError, TypeError, ValueError, OSError, pa.ArrowException) as error:
        raise InvalidArgumentError(
            f"option {SCAN_OPTION}: invalid value ({error!r}); do not set it, call "
            "nimblepy.spark.scan()"
        ) from error


def _unpacked_input(packed: Mapping[str, Any]) -> SparkInput:
    if "table" in packed:
        return InputTable(str(packed["table"]), text=str(packed["files"]))
    return InputFiles(str(packed["directory"]), FileList.from_arrow(_to_table(packed["files"])))


def pack_indexes(indexes: Sequence[HashIndex | SortedIndex]) -> str:
    """Encodes indexes as the text of an option."""
    packed: list[dict[str, Any]] = []
    for index in indexes:
        if isinstance(index, HashIndex):
            packed.append(
                {
                    "columns": list(index.columns),
                    "load_factor": index.load_factor,
                    "bloom_bits_per_key": index.bloom_bits_per_key,
                }
            )
        else:
            packed.append({"keys": pack_sort_keys(index.columns)})
    return json.dumps(packed)


def indexes_of(options: Mapping[str, str]) -> list[HashIndex | SortedIndex]:
    """The indexes in the options of a write.

    Raises:
        InvalidArgumentError: an option cannot be parsed.
    """
    indexes: list[HashIndex | SortedIndex] = []
    try:
        for packed in json.loads(options.get(INDEXES_OPTION, "[]")):
            if "keys" in packed:
                indexes.append(SortedIndex(unpack_sort_keys(packed["keys"])))
            else:
                names = [n if isinstance(n, str) else tuple(n) for n in packed.pop("columns")]
                indexes.append(HashIndex(names, **packed))
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise InvalidArgumentError(
            f"option {INDEXES_OPTION}: invalid value ({error!r}); do not set it, call "
            "nimblepy.spark.write()"
        ) from error
    for text in filter(None, options.get("hash_index", "").split(";")):
        indexes.append(HashIndex([name.strip() for name in text.split(",")]))
    for text in filter(None, options.get("sorted_index", "").split(";")):
        indexes.append(SortedIndex(list(parse_sort_keys(text))))
    return indexes


def parse_keys(text: str) -> tuple[SortKey, ...]:
    """Parses ``"a, b desc"``, or the result of :func:`pack_sort_keys`."""
    if text.lstrip().startswith("["):
        return unpack_sort_keys(text)
    return parse_sort_keys(text)


def refuse_others(options: Mapping[str, str], allowed: Sequence[str], what: str) -> None:
    """Raises an error for unknown options, since ignoring one could silently change the result.

    Args:
        allowed: allowed names. A name that ends in a dot allows all names with this prefix.
        what: the operation, for the error message.

    Raises:
        InvalidArgumentError: there is an unknown option; the message names it.
    """
    for name in options:
        if not any(name == item or (item[-1] == "." and name.startswith(item)) for item in allowed):
            public = [
                item + "NAME" * (item[-1] == ".") for item in allowed if item not in _INTERNAL
            ]
            raise InvalidArgumentError(
                f"option {name!r}: {what} has no such option; it takes "
                f"{', '.join(map(repr, public))}"
            )


def parse_parts(text: str | None) -> int | None:
    """The requested number of partitions; ``None`` to choose it by processors and size."""
    if text is None:
        return None
    try:
        return at_least("parts", int(text), 1)
    except ValueError:
        raise InvalidArgumentError(f"option 'parts': expected an int >= 1, got {text!r}") from None


def parse_names(text: str | None) -> list[str] | None:
    """Parses ``"a, b"``, or a JSON list for names that contain commas."""
    if text is None:
        return None
    if text.lstrip().startswith("["):
        return [str(name) for name in json.loads(text)]
    return [name.strip() for name in text.split(",") if name.strip()]


def _from_bound(bound: Any) -> str | None:
    """Encodes a bound of a key range as a table of one row."""
    if bound is None:
        return None
    values = bound if isinstance(bound, (tuple, list)) else (bound,)
    try:
        arrays = [pa.array([_in_arrow(value)]) for value in values]
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"key_range: {bound!r} cannot be a key: {error}") from error
    return _from_table(pa.table(arrays, names=[str(i) for i in range(len(arrays))]))


def _in_arrow(value: Any) -> Any:
    """Converts integers beyond 64 bits to decimals."""
    large = isinstance(value, int) and not -(2**63) <= value < 2**64
    return Decimal(value) if large else value


def _to_bound(text: str | None) -> Any:
    if text is None:
        return None
    return tuple(column[0] for column in _to_table(text).columns)


def _from_table(table: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return _from_bytes(sink.getvalue())


def _to_table(text: str) -> pa.Table:
    table = pa.ipc.open_stream(_to_bytes(text)).read_all()
    table.validate(full=True)
    return table


def _from_bytes(data: Any) -> str:
    return base64.b64encode(data).decode()


def _to_bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
