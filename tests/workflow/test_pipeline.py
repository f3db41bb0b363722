"""A tiny study from nothing to its report, from its pack, and without measuring."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from clones import REPORT, TINY, Clone, Kept, make_clone

import pack as command
from hyperslab.results.packing import unpack
from hyperslab.results.packs import PackError

TABLES = ("results/tiny/confirmation.parquet", "results/tiny/score.json")


def pack(clone: Clone, *arguments: str) -> str:
    """`workflow/scripts/pack.py …` in a clone."""
    done = subprocess.run(
        [sys.executable, "workflow/scripts/pack.py", *arguments],
        cwd=clone.directory,
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{done.returncode} {done.stdout}{done.stderr}"


def unpacked(file: Path, clone: Clone) -> None:
    """Do in this process what that command does to unpack a file in a clone."""
    unpack(file, clone.directory / "results", clone.directory / "config" / "studies")


@pytest.fixture(scope="module")
def packed(measured: Clone, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("packed") / "tiny.tar.xz"
    assert pack(measured, "pack", "tiny", "--output", str(file)).startswith("0 ")
    return file


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> tuple[Clone, Kept]:
    """A clone without results; whoever unpacks a study need not have it."""
    top = tmp_path_factory.mktemp("elsewhere")
    made = make_clone(top / "other")
    (made.directory / "config/studies/tiny.yaml").unlink()
    return made, Kept(made, top / "kept")


@pytest.fixture
def other(elsewhere: tuple[Clone, Kept]) -> Iterator[Clone]:
    """That clone, put back as it was after the test."""
    made, kept = elsewhere
    yield made
    kept.put_back()


def test_tables_can_be_read_without_the_project(measured: Clone) -> None:
    table = pd.read_parquet(measured.directory / "results/tiny/measurements.parquet")
    summary = pd.read_csv(measured.directory / "results/tiny/summary.csv")
    # 3 layouts x 3 rounds x (3 cold + 3 warm + 4 session), and 3 rounds of 2 writes.
    assert len(table) == 3 * 3 * 10 + 3 * 2
    assert len(summary) == 3 * 3 * 3 + 3
    assert not table["stale"].any()
    assert (table["time_s"] > 0).all()


def test_every_computed_size_is_the_measured_one(measured: Clone) -> None:
    table = pd.read_parquet(measured.directory / "results/tiny/measurements.parquet")
    assert (table["padding_bytes"] == table["padding_predicted_bytes"]).all()
    read = table[table["kind"] == "read"]
    assert (read["index_bytes"] == read["index_predicted_bytes"]).all()
    assert (table["chunks"] == table["chunks_predicted"]).all()
    cold = table[table["state"] == "cold"]
    known = cold["requested_predicted_bytes"].notna()
    assert known.all()
    assert (cold["requested_bytes"] == cold["requested_predicted_bytes"]).all()


def test_cold_is_cold_and_warm_is_warm(measured: Clone) -> None:
    table = pd.read_parquet(measured.directory / "results/tiny/measurements.parquet")
    assert (table.loc[table["state"] == "cold", "resident_before"] <= 0.01).all()
    assert (table.loc[table["state"] == "warm", "resident_before"] >= 0.99).all()


def test_intervals_of_timed_jobs_do_not_overlap(measured: Clone) -> None:
    table = pd.read_parquet(measured.directory / "results/tiny/measurements.parquet")
    assert not table["overlap"].any()


def test_a_pack_gives_the_same_tables_without_measuring(measured: Clone, packed: Path, other: Clone) -> None:
    assert pack(other, "unpack", str(packed)).startswith("0 tiny\n")
    plan = other.planned(REPORT)
    assert not any(rule.startswith(("generate", "measure")) for rule in plan)
    other.build("--config", "measure=false", "--", *TABLES)
    for name in ("measurements.parquet", "confirmation.parquet"):
        ours, theirs = (pd.read_parquet(c.directory / "results/tiny" / name) for c in (measured, other))
        pd.testing.assert_frame_equal(ours, theirs)
    cells = (clone.directory / "results/tiny/cells" for clone in (measured, other))
    ours, theirs = ({path.relative_to(d): path.read_bytes() for path in d.rglob("*.json")} for d in cells)
    assert ours == theirs
    for name in ("summary.csv", "score.json", "recommendation.json"):
        ours, theirs = ((c.directory / "results/tiny" / name).read_text() for c in (measured, other))
        assert ours == theirs, name


def test_a_damaged_pack_is_refused(
    packed: Path, other: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytearray(packed.read_bytes())
    content[len(content) // 2] ^= 1
    file = tmp_path / "tiny.tar.xz"
    file.write_bytes(content)
    monkeypatch.chdir(other.directory)
    monkeypatch.setattr(sys, "argv", ["pack.py", "unpack", str(file)])
    with pytest.raises(SystemExit, match="^error: "):
        command.main()
    assert not list((other.directory).glob("results/**/*.json"))


def test_other_results_are_not_overwritten(packed: Path, other: Clone) -> None:
    unpacked(packed, other)
    record = next((other.directory / "results/tiny/cells").rglob("*.json"))
    record.write_text(record.read_text(encoding="utf-8").replace('"seed":1', '"seed":2'), encoding="utf-8")
    before = record.read_bytes()
    with pytest.raises(PackError, match="another result"):
        unpacked(packed, other)
    assert record.read_bytes() == before


def test_what_is_missing_is_said_and_fails_nothing(packed: Path, other: Clone) -> None:
    unpacked(packed, other)
    # Of the last the file of sites here knows nothing.
    other.write_study("tiny", {**TINY, "sites": ["disk", "memory", "far"]})
    # Nothing is recommended by writes, so that no other layout is to be confirmed.
    (other.directory / "results/tiny/cells/disk/4x4x64/write.r1.json").unlink()
    other.build("--config", "measure=false", "--", REPORT)
    page = (other.directory / REPORT).read_text(encoding="utf-8")
    assert "planned cells have no result (disk 1); no cell has a result at memory and far." in page
    assert not other.planned("--config", "measure=false", "--", REPORT)


def test_snakemakes_own_report_has_the_figures(measured: Clone, tmp_path: Path) -> None:
    measured.build("--report", str(tmp_path / "snakemake.html"), "--", REPORT)
    page = (tmp_path / "snakemake.html").read_text(encoding="utf-8")
    assert "counts.svg" in page
