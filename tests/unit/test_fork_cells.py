"""Cells in forked processes: what they record is what a process records that has started by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from forked_cells import LONGEST_S, fork_server, job
from samples import CELL, prepared

import fork_cells
import run_forked
from hyperslab.layouts.environments import OF_WORKERS, made
from hyperslab.measuring.fork_requests import Request
from hyperslab.measuring.process import interpreter_of
from hyperslab.studies.specification import text

SCRIPTS = Path(run_forked.__file__).parent


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of jobs of a run that starts its cells, with locks of its own."""
    environment = {name: value for name, value in os.environ.items() if name != run_forked.VARIABLE}
    return {
        **environment,
        "PYTHONPATH": str(SCRIPTS),
        "HYPERSLAB_LOCKS": str(tmp_path_factory.mktemp("locks")),
    }


@pytest.fixture(scope="module")
def forked(started: dict[str, str]) -> Iterator[dict[str, str]]:
    """The environment of jobs of a run that forks its cells."""
    with fork_server(started) as name:
        yield {**started, run_forked.VARIABLE: name}


def run(environment: dict[str, str], module: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a job as a rule does."""
    return subprocess.run(
        job(module, *words), env=environment, capture_output=True, text=True, timeout=LONGEST_S
    )


def record(environment: dict[str, str], root: Path) -> dict[str, Any]:
    """The record of a cell whose two processes have this environment."""
    told = ["--specification", text(CELL), "--artifact", str(root / "study/layout/box.r0")]
    for module, more in (("generate", []), ("measure", ["--site", "here", "--record", str(root / "record")])):
        done = run(environment, f"hyperslab.{module}", *told, *more)
        assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads((root / "record").read_text(encoding="utf-8"))
    return found


def test_a_forked_cell_records_what_a_started_one_does(
    forked: dict[str, str], started: dict[str, str], tmp_path: Path
) -> None:
    with prepared(tmp_path) as root:
        one, other = record(forked, root), record(started, root)
    assert one["environment"].pop("HYPERSLAB_FORKED") == "1"
    for key in ("specification", "environment", "versions", "machine", "locks", "file"):
        assert one[key] == other[key], key
    counted = ("state", "origin", "asked_bytes", "requested_bytes", "requested_reads", "chunks_touched")
    rows = [[{key: row[key] for key in counted} for row in found["repeats"]] for found in (one, other)]
    assert rows[0] == rows[1]


def test_a_forked_cell_fails_in_one_line(forked: dict[str, str], tmp_path: Path) -> None:
    words = ["--specification", text(CELL), "--artifact", str(tmp_path / "nowhere")]
    done = run(forked, "hyperslab.generate", *words)
    assert done.returncode == 1
    assert done.stderr.startswith(f"hyperslab.generate: {tmp_path / 'nowhere'}: FileNotFoundError: ")
    assert len(done.stderr.splitlines()) == 1


def test_options_are_explained_as_ever(forked: dict[str, str], started: dict[str, str]) -> None:
    said = [run(environment, "hyperslab.measure", "--help").stdout for environment in (forked, started)]
    assert said[0] == said[1]
    assert said[0].startswith("usage: measure.py")


def test_a_parent_imports_neither_tables_nor_plots_and_has_one_thread(started: dict[str, str]) -> None:
    code = (
        "import os, sys, fork_cells; fork_cells.import_everything('hdf5');"
        "print(len(os.listdir('/proc/self/task')), *{name.split('.')[0] for name in sys.modules})"
    )
    environment = {**started, "OPENBLAS_NUM_THREADS": "1"}
    threads, *modules = subprocess.check_output(
        [sys.executable, "-c", code], env=environment, text=True
    ).split()
    assert threads == "1"
    assert {"h5py", "numpy", "hyperslab"} <= set(modules)
    assert not {"pandas", "pyarrow", "matplotlib", "snakemake", "pydantic"} & set(modules)


def test_a_layout_of_another_release_has_a_parent_in_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def interpreter(release: str | None) -> str:
        layout = CELL["layout"] if release is None else {**CELL["layout"], "release": release}
        words = ("--specification", json.dumps({**CELL, "layout": layout}))
        return fork_cells.parent_command(Request(0, "/some/python", "hyperslab.measure", words, {}))[0]

    own = tmp_path / ".venv-releases/hdf5-1.12/bin/python"
    own.parent.mkdir(parents=True)
    own.touch()
    assert interpreter(None) == "/some/python"
    assert interpreter("1.12") == str(own)
    # It is not there, which the process itself says.
    assert interpreter("1.14") == "/some/python"
    with pytest.raises(ValueError, match="os"):
        fork_cells.parent_command(Request(0, "/some/python", "os", (), {}))


def test_a_cell_of_dask_has_a_parent_in_its_environment_and_its_writer_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forked elsewhere it would be exchanged for that interpreter, and import everything once more."""
    monkeypatch.chdir(tmp_path)
    own = interpreter_of(made(OF_WORKERS["dask"]))
    own.parent.mkdir(parents=True)
    own.touch()
    words = ("--specification", json.dumps({**CELL, "case": {**CELL["case"], "by": "dask"}}))
    found = [
        fork_cells.parent_command(Request(0, "/some/python", f"hyperslab.{module}", words, {}))[0]
        for module in ("generate", "measure")
    ]
    assert found == ["/some/python", str(own)]
