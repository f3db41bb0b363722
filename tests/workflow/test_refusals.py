"""Bad input stops with one line and exit status 1 before anything is written."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from clones import TINY, Clone, make_clone


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return make_clone(tmp_path_factory.mktemp("refused") / "clone")


def study_with(path: str, value: Any) -> dict[str, Any]:
    """The tiny study with one place changed; `path` is dotted."""
    study = copy.deepcopy(TINY)
    place: Any = study
    *outer, last = path.split(".")
    for key in outer:
        place = place[key]
    place[last] = value
    return study


MISTAKES = {
    "typing mistake": ("dataset.shpae", [1, 2, 3], "dataset.shpae: unknown key"),
    "extent that does not fit": ("cases.slices.read", {"z": 257}, "axis z has 256"),
    "unknown site": ("sites", ["disk", "moon"], "no site 'moon'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_study(fresh: Clone, mistake: str) -> None:
    path, value, said = MISTAKES[mistake]
    fresh.write_study("wrong", study_with(path, value))
    done = fresh.run("results/wrong/report.html")
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if line.startswith("hyperslab: ")]
    assert len(lines) == 1
    assert "wrong.yaml: " in lines[0]
    assert said in lines[0]
    assert "Traceback" not in done.stderr
    assert not (fresh.directory / "results").exists()
    assert not (fresh.directory / "testfiles").exists()


ROOTS = {
    "not writable": ({"root": "/proc/hyperslab"}, "cannot be written"),
    "too small": ({"root": "testfiles", "cap_bytes": 1000}, "needs"),
    "unset variable": ({"root": "$HYPERSLAB_NOT_SET/files"}, "not set"),
    "no read-ahead": (
        {"root": "/dev/shm/hyperslab-refused", "read_ahead_bytes": 131072},
        "the device whose read-ahead",
    ),
}


@pytest.mark.parametrize("fault", ROOTS)
def test_a_file_system_that_cannot_serve(fresh: Clone, tmp_path: Path, fault: str) -> None:
    described, said = ROOTS[fault]
    sites = tmp_path / "sites.yaml"
    sites.write_text(
        yaml.safe_dump({"file_systems": {"disk": described}, "sites": {"disk": {"file_system": "disk"}}}),
        encoding="utf-8",
    )
    done = fresh.run("--config", f"sites={sites}", "--", "results/tiny/report.html")
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if line.startswith("hyperslab: ")]
    assert len(lines) == 1
    assert said in lines[0]
    assert not (fresh.directory / "results").exists()
