"""The Python of .venv and of MPI ranks: the first that fits is taken, and where there is none it is said."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from test_environments import ROOT

NAMES = ("python3", "python3.14", "python3.13", "python3.12", "python3.11")
SCRIPTS = {"create-venv": [], "create-mpi": ["locks", ".venv-mpi"]}
# Stands in for an interpreter, up to the environment that it would make.
STUB = """#!/bin/sh
case $* in
    *venv\\ --clear*) echo "made with {name}"; exit 3 ;;
    *ensurepip*) exit {lacks_venv} ;;
    *version_info*) echo {version} ;;
esac
"""


def executable(file: Path, text: str) -> str:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")
    file.chmod(0o755)
    return str(file)


def made(
    script: str, directory: Path, pythons: dict[str, tuple[str, bool]], named: str = ""
) -> subprocess.CompletedProcess[str]:
    """A script of envs/, run elsewhere, where Pythons on the PATH have these versions, and venv or not."""
    for name in NAMES:
        version, has_venv = pythons.get(name, ("", False))
        stub = STUB.format(name=name, version=version, lacks_venv=int(not has_venv))
        executable(directory / "bin" / name, stub if version else "#!/bin/sh\nexit 1\n")
    (directory / "hdf5").mkdir()
    (directory / "hdf5" / "H5pubconf.h").write_text("#define H5_HAVE_PARALLEL 1\n", encoding="utf-8")
    environment = {
        **os.environ,
        "PATH": f"{directory / 'bin'}:{os.environ['PATH']}",
        "PYTHON": named,
        "MPICC": executable(directory / "bin" / "mpicc", "#!/bin/sh\n"),
        "HDF5_INCLUDEDIR": str(directory / "hdf5"),
    }
    return subprocess.run(
        ["sh", str(ROOT / "envs" / script), *SCRIPTS[script]],
        cwd=directory, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize(("named", "taken"), [("", "python3.13"), ("python3.12", "python3.12")])
def test_the_first_python_that_fits_is_taken_or_the_one_that_is_named(
    script: str, named: str, taken: str, tmp_path: Path
) -> None:
    fitting = {f"python3.{minor}": (f"3.{minor}", True) for minor in (13, 12, 11)}
    pythons = {"python3": ("3.10", True), "python3.14": ("3.14", False), **fitting}
    done = made(script, tmp_path, pythons, named)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (3, f"made with {taken}"), done.stderr


@pytest.mark.parametrize("script", SCRIPTS)
def test_that_no_python_fits_is_one_line(script: str, tmp_path: Path) -> None:
    done = made(script, tmp_path, {"python3": ("3.10", True)})
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("error: no Python 3.11 to 3.14")


def test_a_python_that_lacks_venv_alone_is_named(tmp_path: Path) -> None:
    done = made("create-venv", tmp_path, {"python3": ("3.10", True), "python3.12": ("3.12", False)})
    assert done.returncode == 1
    assert done.stderr.startswith("error: Python 3.12 has no venv module; install it")
