"""Progress: what is shown, and that nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nimblepy as nb
from nimblepy.io import progress as progress_module
from nimblepy.io.progress import Progress

pytestmark = pytest.mark.sanitizer

TABLE = pa.table({"k": [2, 1, 3]})


@pytest.mark.parametrize("bad", [{"unique": True}, {"cluster_by": "zz"}, {"indexes": [7]}])
def test_writer_with_bad_arguments_leaves_no_bar(tmp_path: Path, bad: dict[str, object]) -> None:
    # The bar, and its thread, were started before the arguments were looked at.
    before = threading.active_count()
    with pytest.raises(nb.InvalidArgumentError):
        nb.Writer(tmp_path / "f", TABLE.schema, progress=True, **bad)  # type: ignore[arg-type]
    assert threading.active_count() == before


def test_bar_appears_with_the_first_row(tmp_path: Path) -> None:
    before = threading.active_count()
    with nb.Writer(tmp_path / "f", TABLE.schema, progress=True) as writer:
        assert threading.active_count() == before
        writer.write(TABLE)
        assert threading.active_count() == before + 1


@pytest.mark.parametrize("target", [True, "function"])
def test_convert_knows_the_rows_of_a_parquet_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: object
) -> None:
    # progress=True showed a bar without an end.
    pq.write_table(TABLE, tmp_path / "in.parquet")
    totals: list[int | None] = []

    def advance(self: Progress, count: int) -> None:
        totals.append(self._total)

    monkeypatch.setattr(progress_module.Progress, "advance", advance)
    how = True if target is True else lambda done, total: None
    nb.convert(tmp_path / "in.parquet", tmp_path / "out.nimble", progress=how)
    assert totals == [3]


@pytest.mark.parametrize("path", ["a\0b", "file:///tmp/a\0b"])
def test_null_character_in_a_path_is_refused(tmp_path: Path, path: str) -> None:
    # The core cut the path there and wrote another file.
    where = path if "://" in path else str(tmp_path / path)
    for call in (nb.open, nb.open_dataset, lambda where: nb.write(TABLE, where)):
        with pytest.raises(ValueError, match="null"):
            call(where)
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_where_no_terminal_is(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # An empty line was, which cron mails.
    nb.write(TABLE, tmp_path / "f", progress=True)
    nb.convert(tmp_path / "f", tmp_path / "g", format="nimble", progress=True)
    assert capfd.readouterr() == ("", "")


def test_jupyter_without_widgets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # rich warned that ipywidgets is not installed.
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr(progress_module, "find_spec", lambda name: None)
    nb.write(TABLE, tmp_path / "f", progress=True)
    assert capfd.readouterr() == ("", "")


def test_a_terminal_has_a_bar(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    code = "import nimblepy as nb, sys; nb.write({'a': [1]}, sys.argv[1], progress=True)"
    leader, follower = pty.openpty()
    command = [sys.executable, "-c", code, str(tmp_path / "f")]
    subprocess.run(command, stderr=follower, check=True, env={**os.environ, "TERM": "xterm"})
    os.close(follower)
    assert b"writing" in os.read(leader, 1 << 16)
    os.close(leader)
