"""The evaluation of agents: its lake, its stale claims, its agent, and the adapter of models."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")


from bench.agents import lake as lakes
from bench.agents import stale as forms
from bench.agents.__main__ import gold, made, outcomes
from bench.agents.agent import Agent
from bench.agents.model import ModelAgent
from bench.agents.questions import QUESTIONS

import nimblepy as nb
from nimblepy.mcp.answers import Answers
from nimblepy.mcp.lake import SharedLake


def test_size_of_the_evaluation() -> None:
    claims = lakes.true_claims()
    assert len(lakes.rows(0)) >= 20
    assert len(QUESTIONS) == len({q.text for q in QUESTIONS}) == 30
    assert len(gold(0)) == 30
    assert gold(0) != gold(1)
    stale, injected = forms.made_stale(claims, 0.2, 0)
    assert len(injected) == round(0.2 * len(forms.places(claims)))
    assert stale != claims
    assert claims == lakes.true_claims()


@pytest.mark.slow
def test_checks_repair_what_is_stale(tmp_path: Path) -> None:
    stale, injected = forms.made_stale(lakes.true_claims(), 0.2, 0)
    lake = made(tmp_path / "lake", 0, stale)
    answers = Answers(SharedLake(str(tmp_path / "lake")))
    try:
        counts = {
            arm: outcomes(Agent(answers, arm).answer, gold(0)) for arm in ("trusting", "checking")
        }
    finally:
        answers.workers.close()
    assert counts["checking"]["right"] >= 25
    assert counts["checking"]["right"] > counts["trusting"]["right"]
    statuses = forms.found(injected, lake.check())
    assert sum(status == "contradicted" for status in statuses.values()) >= 0.8 * len(statuses)


class _Model(http.server.BaseHTTPRequestHandler):
    """Asks for one query, and repeats the number of its answer."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        last = body["messages"][-1]
        if last["role"] == "tool":
            number = json.loads(last["content"])["rows"][0][0]
            message: dict[str, Any] = {"role": "assistant", "content": f"ANSWER: {number}"}
        else:
            arguments = json.dumps({"sql": "SELECT count(*) FROM a.b"})
            call = {"id": "1", "function": {"name": "query", "arguments": arguments}}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        reply = json.dumps({"choices": [{"message": message}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), _Model) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


def test_adapter_of_models(tmp_path: Path, endpoint: str) -> None:
    nb.connect(tmp_path / "lake").create_table("a.b", {"k": range(7)})
    answers = Answers(SharedLake(str(tmp_path / "lake")))
    try:
        agent = ModelAgent(answers, "checking", endpoint, "none")
        assert agent.answer(QUESTIONS[0]) == 7
        assert agent.spent > 0
    finally:
        answers.workers.close()
