"""JSON that would crash pyarrow's parser: values that nest too deep, and nulls as rows."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy.input.safe_json import SafeJson
from nimblepy.input.texts import rows_of_json


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("levels", [1001, 30_000])
def test_deep_values_are_refused(tmp_path: Path, opening: str, levels: int) -> None:
    closing = "]" if opening == "[" else "}"
    path = tmp_path / "a.jsonl"
    path.write_text('{"id":1}\n{"z":' + opening * levels + "1" + closing * levels + "}\n")
    with pytest.raises(nb.InvalidArgumentError, match=r"a\.jsonl: a value nests deeper than 1000"):
        nb.write(path, tmp_path / "a.nimble")
    with pytest.raises(nb.InvalidArgumentError, match="line 2: not JSON"), path.open("rb") as lines:
        list(rows_of_json(lines, pa.schema([("id", pa.int64())]), False, "a.jsonl"))


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\n  "])
def test_deep_values_of_many_lines_are_refused(tmp_path: Path, newline: str) -> None:
    opening, closing = f"[{newline}" * 30_000, f"{newline}]" * 30_000
    path = tmp_path / "a.jsonl"
    path.write_bytes(f'{{"id":1}}\n{{"z":{opening}1{closing}}}\n'.encode())
    with pytest.raises(nb.InvalidArgumentError, match=r"a\.jsonl: a value nests deeper than 1000"):
        nb.write(path, tmp_path / "a.nimble")


def test_rows_of_many_lines_are_read(tmp_path: Path) -> None:
    rows = [f'{{\n "id": {i},\n "z": [\n  [1],\n  [2]\n ]\n}}' for i in range(3000)]
    for border in ("\n", "\r\n", "\n  "):
        (tmp_path / "a.jsonl").write_bytes(border.join(rows).encode())
        nb.write(tmp_path / "a.jsonl", tmp_path / "a.nimble")
        with nb.open(tmp_path / "a.nimble") as file:
            assert file.num_rows == 3000


@pytest.mark.parametrize("border", ["\n", "\n\n", " \r\n  "])
def test_brackets_in_texts_of_earlier_reads_are_no_depth(border: str) -> None:
    rows = ['{"s":"' + "[" * 900 + "x" * 5000 + '"}', '{"z":' + "[" * 500 + "]" * 500 + "}"]
    text = border.join(rows * 20).encode()
    stream = SafeJson(io.BytesIO(text), "a", list)
    assert b"".join(iter(lambda: stream.read(3000), b"")) == text


def test_brackets_in_a_text_that_a_read_cuts_are_no_depth() -> None:
    text = b'{"t":"' + b"[" * 990 + b"x" * 5000 + b'","a":' + b"[" * 12 + b"]" * 12 + b"}\n"
    stream = SafeJson(io.BytesIO(text), "a", list)
    assert b"".join(iter(lambda: stream.read(3000), b"")) == text


@pytest.mark.parametrize("seed", range(20))
def test_depth_is_counted_as_json_nests(seed: int) -> None:
    rng = random.Random(seed)
    lines = []
    for _ in range(40):
        levels = rng.choice([0, 3, 400, 900])
        brackets = rng.choice(["", "[" * 2000, "}" * 50, '[\\"{{'])
        lines.append(f'{{"s":"{brackets}","z":' + "[" * levels + "[],[]" * 700 + "]" * levels + "}")
    text = "\n".join(lines).encode()
    deep = rng.random() < 0.5
    if deep:
        text += b"\n" + b"[" * 1001
    stream = SafeJson(io.BytesIO(text), "a", list)
    size = rng.choice([1 << 20, 1 << 14])

    def read() -> bytes:
        return b"".join(iter(lambda: stream.read(size), b""))

    if deep:
        with pytest.raises(nb.InvalidArgumentError, match="deeper"):
            read()
    elif size == 1 << 20:
        assert read() == text


def test_brackets_in_strings_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"s":"' + "[{" * 3000 + '"}\n' * 1)
    nb.write(path, tmp_path / "a.nimble")
    assert nb.open(tmp_path / "a.nimble").to_table()["s"].to_pylist() == ["[{" * 3000]


def test_brackets_in_strings_do_not_hide_depth(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a":"' + "]" * 50_000 + '","b":' + "[" * 50_000 + "]" * 50_000 + "}\n")
    with pytest.raises(nb.InvalidArgumentError, match="nests deeper"):
        nb.write(path, tmp_path / "a.nimble")


@pytest.mark.parametrize("first", [0, 1, 6, 7, 8, 9, 20, 1 << 20])
@pytest.mark.parametrize("start", [b'{"s":"x', b'{"s":"\\"', b'{"s":"\\\\', b'{"s":"x\n{"s":"x'])
def test_depth_is_found_after_a_text_that_a_read_cuts(start: bytes, first: int) -> None:
    text = start + b"y" * 100 + b'","z":' + b"[" * 2000 + b'"a"' + b"]" * 2000 + b"}\n"
    stream = SafeJson(io.BytesIO(text), "a", list)
    sizes = iter([first, 1 << 20])
    with pytest.raises(nb.InvalidArgumentError, match="deeper"):
        b"".join(stream.read(size) for size in sizes)


def test_brackets_after_escapes_in_a_text_are_no_depth() -> None:
    text = b'{"s":"\\\\\\"' + b"[" * 900 + b'\\"' * 9 + b"[" * 900 + b'\\\\"}\n'
    stream = SafeJson(io.BytesIO(text), "a", list)
    assert b"".join(iter(lambda: stream.read(1 << 20), b"")) == text


@pytest.mark.parametrize("text", [b'{"a":"} null', b'{"a":"} null' + b"[" * 1001])
@pytest.mark.parametrize("end", [b"", b"\n", b"\\", b"\\\n"])
def test_a_text_that_is_cut_takes_linear_time(tmp_path: Path, text: bytes, end: bytes) -> None:
    path = tmp_path / "a.jsonl"
    # 4 MB take less than a second. They took hours: the search began again at each quote.
    path.write_bytes(text + b'\\"' * 2_000_000 + end)
    with pytest.raises(nb.InvalidArgumentError, match=r"a\.jsonl: it cannot be read as json"):
        nb.write(path, tmp_path / "a.nimble")


@pytest.mark.parametrize(
    ("text", "line", "value"),
    [
        (b"null\n", 1, "null"),
        (b"null", 1, "null"),
        (b"\xef\xbb\xbf null\n", 1, "null"),
        (b'\n\nnull\n{"id":1}\n', 3, "null"),
        (b'{"id":1}\nnull\n{"id":2}\n', 2, "null"),
        (b'{"id":1}\r\n \tnull\r\n', 2, "null"),
        (b'{"id":1} null\n', 1, "null"),
        (b'{"s":"}\\" null"}\n{"s":"x"}\nnull\n', 3, "null"),
        (b'{\n"id":\n1}\nnull\n', 4, "null"),
        (b"5\n", 1, "5"),
        (b'"x"\n', 1, "'x'"),
        (b"true\n", 1, "true"),
        (b'{"id":1}\n5\n', 2, "5"),
        (b'{"id":1}\n[1]\n', 2, r"\[1\]"),
    ],
)
def test_rows_that_are_not_objects_are_refused(
    tmp_path: Path, text: bytes, line: int, value: str
) -> None:
    # pyarrow crashed if the first row was null, and read later nulls as rows of nulls.
    path = tmp_path / "a.jsonl"
    path.write_bytes(text)
    message = rf"a\.jsonl: line {line}: expected an object, got {value}"
    with pytest.raises(nb.InvalidArgumentError, match=message):
        nb.write(path, tmp_path / "a.nimble")
    t = nb.connect(tmp_path / "lake").create_table("a.b", pa.schema([("id", pa.int64())]))
    with pytest.raises(nb.InvalidArgumentError, match=message):
        t.append(path)


def test_nulls_in_texts_and_lists_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"s":"} null","l":[1,\nnull\n]}\n{"s":"{}\\"} null}","l":null}\n')
    nb.write(path, tmp_path / "a.nimble")
    assert nb.open(tmp_path / "a.nimble").to_table().to_pylist() == [
        {"s": "} null", "l": [1, None]},
        {"s": '{}"} null}', "l": None},
    ]


@pytest.mark.parametrize("size", range(1, 12))
@pytest.mark.parametrize("text", [b'{"id":1}\n  null\n', b"null\n", b'{"id":{}}null'])
def test_null_rows_are_found_across_reads(text: bytes, size: int) -> None:
    stream = SafeJson(io.BytesIO(text), "a", lambda: io.BytesIO(text))
    with pytest.raises(nb.InvalidArgumentError, match="got null"):
        b"".join(iter(lambda: stream.read(size), b""))
