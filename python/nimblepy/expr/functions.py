"""The functions and operators of SQL text: a table from names to kernels.

A signature lists the kinds of the arguments, in order: ``text``, ``bytes``, ``number``,
``integer``, ``date`` (a date or timestamp), ``time`` (a date, timestamp or time of day), ``list``,
``any``, and ``const`` (quoted text such as a unit). ``?`` marks an optional argument, ``+`` a
repeated one. A ``strict`` function returns null if an argument is null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.expr import lists, numbers, strings, times
from nimblepy.expr.arrays import Value
from nimblepy.expr.strings import faster, with_options
from nimblepy.schema.kinds import family, is_bytes, is_text


class Function(NamedTuple):
    signature: str
    kernel: Callable[..., Value]
    strict: bool = True


characters = faster(pc.utf8_length, pc.binary_length)


def _length(value: Value) -> Value:
    if is_text(value.type):
        return characters(value).cast(pa.int64())
    return lists.length(value)


def _contains(value: Value, wanted: Value) -> Value:
    if is_text(value.type):
        return with_options(strings.holds)(value, wanted)
    return lists.contains(value, wanted)


def _octets(value: Value) -> Value:
    return pc.binary_length(value).cast(pa.int64())


_TABLE: dict[str, Function] = {
    # numbers
    "negate": Function("number", numbers.negate),
    "abs": Function("number", numbers.absolute),
    "^ pow power": Function("number number", numbers.power),
    "* multiply": Function("number number", numbers.multiply),
    "/ divide": Function("number number", numbers.divide),
    "//": Function("number number", numbers.divide_whole),
    "% mod": Function("number number", numbers.remainder),
    "round": Function("number integer?", with_options(numbers.round_to)),
    "floor": Function("number", numbers.floor),
    "ceil ceiling": Function("number", numbers.ceil),
    "trunc": Function("number", numbers.truncate),
    "sign": Function("number", numbers.sign),
    "sqrt": Function("number", numbers.square_root),
    "ln": Function("number", numbers.logarithm),
    "exp": Function("number", numbers.exponential),
    "isnan": Function("number", numbers.is_nan),
    "isinf": Function("number", numbers.is_inf),
    "isfinite": Function("number", numbers.is_finite),
    # text
    "lower lcase": Function("text", faster(pc.utf8_lower, pc.ascii_lower)),
    "upper ucase": Function("text", faster(pc.utf8_upper, pc.ascii_upper)),
    "length": Function("text|list", _length),
    "len char_length character_length array_length list_length": Function("text|list", _length),
    "strlen": Function("text", _octets),
    "octet_length": Function("bytes", _octets),
    "substr substring": Function("text integer integer?", with_options(strings.substring)),
    "left": Function("text integer", with_options(strings.left)),
    "right": Function("text integer", with_options(strings.right)),
    "trim": Function("text text?", with_options(strings.trimmer(pc.utf8_trim))),
    "ltrim": Function("text text?", with_options(strings.trimmer(pc.utf8_ltrim))),
    "rtrim": Function("text text?", with_options(strings.trimmer(pc.utf8_rtrim))),
    "replace": Function("text text text", with_options(strings.replace)),
    "reverse": Function("text", pc.utf8_reverse),
    "repeat": Function("text integer", with_options(strings.repeat)),
    "position instr strpos": Function("text text", with_options(strings.position)),
    "contains": Function("text|list any", _contains),
    "starts_with prefix": Function("text|bytes text", with_options(strings.starts_with)),
    "ends_with suffix": Function("text text", with_options(pc.ends_with)),
    "like": Function("text|bytes text text?", with_options(strings.like)),
    "ilike": Function("text text text?", with_options(strings.ilike)),
    "regexp_matches": Function("text text text?", with_options(strings.matches)),
    "~ regexp_full_match": Function("text text text?", with_options(strings.matches_whole)),
    "concat": Function("any+", strings.concat, strict=False),
    # dates and times
    "date_part datepart": Function("const time", times.part),
    "date_trunc datetrunc": Function("const date", times.truncate),
    "date_diff datediff": Function("const date date", times.difference),
    "last_day": Function("date", times.last_day),
    # lists and structs
    "list_contains list_has array_contains array_has": Function("list any", lists.contains),
    "list_extract list_element array_extract": Function("list integer", lists.extract),
}
for _part in (*times.PARTS, "dayofmonth", "dayofweek", "weekday", "dayofyear", "weekofyear"):
    _TABLE[_part] = Function("time", times.part_of(_part))
FUNCTIONS = {name: function for names, function in _TABLE.items() for name in names.split()}


def fits(word: str, data_type: pa.DataType) -> bool:
    """Whether ``data_type`` is allowed for an argument with this word in the signature."""
    if "|" in word:
        return any(fits(part, data_type) for part in word.split("|"))
    kind = family(data_type)
    match word.rstrip("?+"):
        case "any":
            return True
        case "text" | "const":
            return is_text(data_type)
        case "bytes":
            return is_bytes(data_type)
        case "integer":
            return bool(pt.is_integer(data_type))
        case "number":
            return kind == "number"
        case "date":
            return kind in ("date", "instant")
        case "time":
            return kind in ("date", "instant", "time")
        case "list":
            return is_list(data_type)
    raise AssertionError(word)


def is_list(data_type: pa.DataType) -> bool:
    return bool(
        pt.is_list(data_type) or pt.is_large_list(data_type) or pt.is_fixed_size_list(data_type)
    )
