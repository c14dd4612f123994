"""JSON that nests too deep, for which pyarrow's parser would overflow the stack."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy.input.json_depth import ShallowJson
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
    stream = ShallowJson(io.BytesIO(text), "a")
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
