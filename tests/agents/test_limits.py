"""Limits of the tools: time, size of answers, cursors behind limits, other sites, and paths."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from mcp.server.mcpserver.exceptions import ToolError

import nimblepy as nb
from nimblepy.errors import InvalidArgumentError
from nimblepy.mcp import answers as answers_module
from nimblepy.mcp import reading
from nimblepy.mcp import workers as workers_module
from nimblepy.mcp.answers import Answers
from nimblepy.mcp.budget import tokens
from nimblepy.mcp.lake import SharedLake
from nimblepy.mcp.server import _Guard, make_server, without_places
from nimblepy.mcp.workers import QueryError

LISTS = {
    "id": list(range(4)),
    "many": [list(range(100_000))] * 4,
    "deep": [[[["word"] * 20] * 20] * 20] * 4,
    "pairs": [[(str(i), i) for i in range(5_000)]] * 4,
    "octets": [bytes(1_000_000)] * 4,
}
TYPES = pa.schema(
    {
        "id": pa.int64(),
        "many": pa.list_(pa.int64()),
        "deep": pa.list_(pa.list_(pa.list_(pa.string()))),
        "pairs": pa.map_(pa.string(), pa.int64()),
        "octets": pa.binary(),
    }
)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answers]:
    place = str(tmp_path_factory.mktemp("limits") / "lake")
    lake = nb.connect(place)
    lake.create_table("a.lists", pa.table(LISTS, TYPES), primary_key="id")
    lake.create_table("a.wide", {f"column_number_{i}": [i] for i in range(900)})
    texts = lake.create_table("a.texts", {"text": ["a" * 40] * 20_000})
    texts.describe("Texts.", rules=[f"text <> '{'x' * 500}{i}'" for i in range(40)])
    answers = Answers(SharedLake(place))
    yield answers
    answers.workers.close()


def test_long_lists_maps_and_bytes_are_cut_and_counted(answers: Answers) -> None:
    for answer in (
        answers.sample("a.lists", n=2),
        answers.get("a.lists", [0, 1]),
        answers.query("select * from a.lists"),
        answers.changes("a.lists"),
    ):
        text = json.dumps(answer)
        assert len(text) / 4 <= 4_000
        assert "(100,000 items)" in text
        assert "cut_lists" in answer or answer.get("cut")
    plain = answers.query("select many from a.lists limit 1", max_tokens=25_000)
    assert plain["cut_lists"] == "1 lists are longer than shown"
    assert plain["rows"][0][0][-1] == "... (100,000 items)"


def test_answers_with_one_large_row_keep_their_budget(answers: Answers) -> None:
    for budget in (200, 500, 1_500):
        for answer in (
            answers.get("a.lists", [0], max_tokens=budget),
            answers.sample("a.lists", n=1, max_tokens=budget),
            answers.describe("a.texts", max_tokens=budget),
            answers.check("a.texts", max_tokens=budget),
        ):
            assert tokens(answer) <= budget
    with pytest.raises(InvalidArgumentError, match="fewer columns"):
        answers.query("select * from a.wide", max_tokens=500)


def test_filters_and_deep_checks_have_limits_of_time(
    answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    # They ran in the process of the server, until they were done.
    monkeypatch.setattr(answers_module, "_READ_MS", 1)
    monkeypatch.setattr(answers_module, "_DEEP_MS", 1)
    monkeypatch.setattr(workers_module, "_GRACE_SECONDS", 0.0)
    with pytest.raises(QueryError, match=r"sample: stopped, because it exceeded 1 ms"):
        answers.sample("a.texts", filter="regexp_matches(text, '(a*)*b')")
    with pytest.raises(QueryError, match="check: stopped, because it exceeded 1 ms"):
        answers.check("a.texts", deep=True)
    monkeypatch.undo()
    assert answers.sample("a.texts", filter="text = 'b'")["matching"] == 0


def test_deep_checks_are_those_of_the_table(answers: Answers) -> None:
    table = nb.connect(answers.lake.target).create_table("a.small", {"k": [1, 2, None, 2]})
    claims: dict[str, Any] = {"columns": {"k": nb.Values([1])}, "unique": ["k"]}
    table.describe(**claims, rules=["k < 2"], allow_contradicted=True)
    own = {(c.claim.kind, c.status, c.observed) for c in table.check(deep=True)}
    shown = answers.check("a.small", deep=True)["claims"]
    assert {(c["kind"], c["status"], c.get("observed")) for c in shown} == own
    assert {c.status for c in table.check(deep=True)} == {"contradicted"}


def test_cursors_of_changes_pass_the_rows_of_one_call(
    answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A cursor behind the rows that one call reads was answered with itself.
    monkeypatch.setattr(reading, "MOST_READ", 30)
    table = nb.connect(answers.lake.target).create_table("a.log", {"id": range(10)})
    for step in range(1, 10):
        table.append({"id": range(10 * step, 10 * step + 10)})
    job = {"since": None, "rows": 25}
    ids: list[int] = []
    for _ in range(10):
        read = reading.changes(table, {**job, "offset": len(ids)})
        ids += [row["id"] for row in read["rows"]]
        if read["complete"] and len(ids) == sum(read["counts"].values()):
            break
    assert sorted(ids) == list(range(100))
    monkeypatch.setattr(reading, "READ_SECONDS", -1.0)
    read = reading.changes(table, {**job, "offset": 50})
    monkeypatch.setattr(answers.workers, "run", lambda job: read)
    with pytest.raises(QueryError, match="since a later snapshot"):
        answers.changes("a.log", cursor="50")


@pytest.mark.parametrize(
    ("origin", "host", "status"),
    [
        ("http://localhost:8765", "localhost:8765", None),
        ("http://localhost:3000", "localhost:8765", 403),
        ("http://localhost", "localhost:8765", 403),
        ("http://localhost", "localhost", None),
        ("https://localhost", "localhost", None),
        ("https://localhost:443", "localhost", None),
        ("https://localhost", "localhost:80", 403),
        ("http://127.0.0.1:8765", "localhost:8765", 403),
        ("ftp://localhost:8765", "localhost:8765", 403),
        ("http://localhost:x", "localhost:8765", 403),
        ("http://[::1]:8765", "[::1]:8765", None),
        ("http://localhost", "localhost:99999", 421),
    ],
)
def test_origins_must_have_the_port_of_the_server(
    origin: str, host: str, status: int | None
) -> None:
    guard = _Guard(lambda *_: None, "127.0.0.1", None)  # type: ignore[arg-type, return-value]
    headers = [(b"host", host.encode()), (b"origin", origin.encode())]
    refusal = guard._refusal({"type": "http", "headers": headers})
    assert (refusal and refusal.status_code) == status


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/data/my lake/a/x.nimble: bad magic", "LAKE/a/x.nimble: bad magic"),
        ("file:///data/my%20lake/a/x.nimble", "LAKE/a/x.nimble"),
        ("cannot open /home/me/cat.db", "cannot open .../cat.db"),
        ("(/etc/ssl/key.pem)", "(.../key.pem)"),
        ("s3://bucket/secret/x.nimble: truncated", ".../x.nimble: truncated"),
        ("postgresql://me:word@host/db failed", ".../db failed"),
        (r"C:\Users\me\x.parquet is gone", ".../x.parquet is gone"),
        ("key 'a/b' is not 1/2, 10/12/2024", "key 'a/b' is not 1/2, 10/12/2024"),
        ("lake://shop/orders", "lake://shop/orders"),
    ],
)
def test_errors_do_not_show_places(text: str, expected: str) -> None:
    assert without_places(text, ["/data/my lake"]) == expected


def test_errors_of_lost_files_do_not_show_places(tmp_path: Path) -> None:
    place = tmp_path / "real place"
    (tmp_path / "link").symlink_to(place)
    lake = nb.connect(place)
    table = lake.create_table("a.b", {"k": range(10)}, primary_key="k")
    for file in table.files()["path"].to_pylist():
        Path(str(file).removeprefix("file://")).write_bytes(b"x")
    server: Any = make_server(str(tmp_path / "link"))
    try:
        with pytest.raises(ToolError, match="LAKE") as caught:
            server._answer(server.answers.get, "a.b", [1])
        assert str(tmp_path) not in str(caught.value)
    finally:
        server.answers.workers.close()
