"""An environment's directory that is a link is not made anew: what lies at its other end may be another's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_environments import ROOT

# script -> its arguments, the directory last; the first makes .venv
SCRIPTS = {
    "create-venv": [],
    "create-release": ["no.lock", ".venv-releases/hdf5-1.12"],
    "create-mpi": ["locks", ".venv-mpi"],
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_lies_at_the_other_end_of_a_link_is_not_emptied(script: str, tmp_path: Path) -> None:
    kept = tmp_path / "elsewhere" / "kept"
    kept.parent.mkdir()
    kept.write_text("another's", encoding="utf-8")
    directory = tmp_path / "here" / (SCRIPTS[script] or [".venv"])[-1]
    directory.parent.mkdir(parents=True)
    directory.symlink_to(kept.parent)
    done = subprocess.run(
        ["sh", str(ROOT / "envs" / script), *SCRIPTS[script]],
        cwd=tmp_path / "here", capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {directory.relative_to(tmp_path / 'here')} is a link to {kept.parent}")
    assert "remove the link" in line
    assert directory.is_symlink() and os.listdir(kept.parent) == ["kept"]


def test_an_environment_of_the_same_lock_is_kept(tmp_path: Path) -> None:
    """A lock of another age alone must not cost an environment that no network could give back."""
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    for place in ("requirements.lock", ".venv/made-of"):
        (tmp_path / place).write_text("numpy==2\n", encoding="utf-8")
    (tmp_path / ".venv" / "made-in").write_text(f"{tmp_path.resolve()}\n", encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON"}
    done = subprocess.run(
        ["sh", str(ROOT / "envs" / "create-venv")], cwd=tmp_path, env=environment, capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / ".venv" / "bin" / "python").is_symlink()
