"""Files that runs leave for the next one: damage is said in one line, with the way out, or undone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from test_packs import packed

import website
from hyperslab.planning.confirmation import finalists, listed_records
from hyperslab.planning.remeasure import named
from hyperslab.results import sources
from hyperslab.sites import roots
from hyperslab.validation.errors import ConfigurationError

DAMAGE = (
    b"",
    b"{",
    b"\xff",
    b"[]",
    b"1",
    b"null",
    b'{"sites": 1}',
    b'{"sites": [1]}',
    b'{"wanted": 3}',
    bytes(99),
)
READERS: dict[str, Callable[[Path], object]] = {
    "finalists": lambda file: finalists(file, "disk"),
    "wanted": lambda file: listed_records(file, "wanted"),
    "records": lambda file: listed_records(file, "records"),
}


@pytest.mark.parametrize("content", DAMAGE)
@pytest.mark.parametrize("reader", READERS)
def test_what_was_made_of_records_is_named_with_the_way_out(
    tmp_path: Path, reader: str, content: bytes
) -> None:
    file = tmp_path / "made.json"
    file.write_bytes(content)
    with pytest.raises(ConfigurationError) as error:
        READERS[reader](file)
    text = str(error.value)
    assert text.splitlines() == [text]
    assert text.startswith(f"{file}: cannot be read (")
    assert text.endswith("); delete it, and it is made again")


def test_a_damaged_table_does_not_say_what_is_noisy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "results/tiny/measurements.parquet"
    table.parent.mkdir(parents=True)
    table.write_bytes(b"x")
    with pytest.raises(
        ConfigurationError, match="measurements.parquet: cannot be read .*; delete it, and it is"
    ):
        named("noisy", "tiny")
    named("*", "tiny")


@pytest.mark.parametrize("content", DAMAGE)
def test_a_damaged_list_of_sources_is_of_another_table(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "sources.json").write_bytes(content)
    assert not sources.unchanged(tmp_path / "sources.json", ["a.json"])


@pytest.mark.parametrize("content", DAMAGE)
def test_a_damaged_marker_is_made_anew(tmp_path: Path, content: bytes) -> None:
    (tmp_path / roots.MARKER).write_bytes(content)
    assert roots.identity_of(str(tmp_path)) == ""
    identity = roots.prepare(str(tmp_path), roots.Root())
    assert identity and json.loads((tmp_path / roots.MARKER).read_text())["identity"] == identity
    assert roots.read(str(tmp_path)).identity == identity


def test_damaged_notes_of_a_website_are_made_anew_or_named_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where the study of a pack is put.
    monkeypatch.setattr(website, "PROJECT", tmp_path)
    site, pack = tmp_path / "site", packed(tmp_path)
    for content in DAMAGE:
        with website.alone(site / ".work"):
            (site / ".work" / "packs.json").write_bytes(content)
            (site / ".work" / "results" / "gone" / "cells").mkdir(parents=True)
            assert website.gather([pack], site / ".work") == ["mine"]
            assert list(json.loads((site / ".work" / "packs.json").read_text(encoding="utf-8"))) == ["mine"]
            assert [path.name for path in (site / ".work" / "results").iterdir()] == ["mine"]
    (site / website.MARKER).write_bytes(b"[")
    with (
        pytest.raises(website.WebsiteError, match=f"cannot be read; delete {site}, or name a new folder"),
        website.alone(site / ".work"),
    ):
        pass
