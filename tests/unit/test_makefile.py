"""What make passes on: what its own command line says, and not what the environment happens to hold."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# WSL sets NAME; a shell may have any of the others.
ENVIRONMENT = dict.fromkeys(("NAME", "STATE", "FILE", "SITE", "SITES", "READS", "STUDY", "LAYOUT"), "stray")

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


def would_run(*words: str) -> str:
    """What make would run, with its environment of Python taken as made."""
    command = ["make", "--dry-run", "--old-file=.venv/made-in", *words]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_advise_takes_its_variables_from_the_command_line_alone() -> None:
    said = would_run(
        "advise", "FILE=mine.h5::/counts", "READS=image: [all, 1]", "SITES=here.yaml", "SITE=a b"
    )
    assert "stray" not in said
    for words in (
        '--reads "$HYPERSLAB_READS"', '--name ""', "--site a b", '--sites "here.yaml"',
        'sites="here.yaml"', '--profile "profiles/local"',
    ):  # fmt: skip
        assert words in said, words


def stand_in(directory: Path, interpreter: str, snakemake: str = "exit 1") -> None:
    """A directory with the Makefile, and scripts in place of the interpreter and of Snakemake."""
    shutil.copy(ROOT / "Makefile", directory)
    programs = directory / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, lines in (("python", interpreter), ("snakemake", snakemake)):
        (programs / name).write_text(f"#!/bin/sh\n{lines}\n")
        (programs / name).chmod(0o755)
    (directory / ".venv" / "made-in").write_text(f"{directory}\n")
    for path in ("requirements.lock", "envs/create-venv"):
        (directory / path).parent.mkdir(exist_ok=True)
        (directory / path).touch()


def advised(directory: Path, *words: str) -> int:
    """How `make advise` ends."""
    command = ["make", "--old-file=.venv/made-in", "advise", *words]
    return subprocess.run(command, cwd=directory, capture_output=True, check=False).returncode


def test_what_a_file_calls_its_arrays_is_read_by_no_shell(tmp_path: Path) -> None:
    # The interpreter writes down what it is given.
    stand_in(tmp_path, '[ "$1" = -c ] && exit 0\nprintf "%s\\n" "$@" >given\nexit 1')
    file = "mine.h5::/a`touch one`$(touch two)$b\"c'd"
    assert advised(tmp_path, f"FILE={file}", "READS=image: {$x: 1}") != 0
    given = (tmp_path / "given").read_text(encoding="utf-8").splitlines()
    assert given[2] == file and given[given.index("--reads") + 1] == "image: {$x: 1}"
    assert not (tmp_path / "one").exists() and not (tmp_path / "two").exists()


@pytest.mark.parametrize("word", ["READ=image: [all, 1]", "SIZEBOUND=0.5", "second=300"])
def test_a_variable_that_nothing_asks_for_is_a_mistake(word: str) -> None:
    command = ["make", "--dry-run", "--old-file=.venv/made-in", "advise", "FILE=mine.h5", word]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode and f"no variable is called {word.partition('=')[0]}:" in done.stderr
    assert " READS " in done.stderr and not done.stdout


def test_all_variables_of_a_command_line_are_known() -> None:
    words = (ROOT / "Makefile").read_text(encoding="utf-8")
    (said,) = re.findall(r"^KNOWN := ((?:.*\\\n)*.*)", words, re.MULTILINE)
    known = set(said.replace("\\", "").split())
    given = {
        *re.findall(r"\$\(call (?:given|literally),(\w+)\)", words),
        *re.findall(r"^(\w+) \?= ", words, re.MULTILINE),
    }
    assert given < known and known - given == {"PACK", "PACKS", "PROFILE", "NO_COLOR", "LOCK_FLAGS"}


def test_where_arrays_are_listed_and_no_study_is_named_nothing_is_measured(tmp_path: Path) -> None:
    stand_in(tmp_path, '[ "$1" = -c ] || cat named', "touch started")
    for study, started in (("", False), ("advice-mine\n", True)):
        (tmp_path / "named").write_text(study)
        assert advised(tmp_path, "FILE=mine.h5") == 0
        assert (tmp_path / "started").exists() == started


def test_rewrite_names_the_recommended_layout_unless_another_is_named() -> None:
    assert "layout/recommended" in (said := would_run("rewrite", "STUDY=advice-mine")) and "stray" not in said
    said = would_run("rewrite", "STUDY=advice-mine", "LAYOUT=4x4x64", "SITE=disk")
    assert "results/advice-mine/layout/4x4x64" in said and 'site="disk"' in said
    assert "name the study" in would_run("rewrite")


def test_another_python_on_the_command_line_makes_the_environment_anew(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    for path in ("requirements.lock", "envs/create-venv", ".venv/bin/python"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "requirements.lock").touch()
    (tmp_path / "envs" / "create-venv").touch()
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / ".venv" / "made-in").write_text(f"{tmp_path}\n")
    (other := tmp_path / "other").write_text("#!/bin/sh\necho elsewhere\n")
    other.chmod(0o755)

    def makes(*words: str, **environment: str) -> bool:
        done = subprocess.run(
            ["make", "--dry-run", "setup", *words],
            cwd=tmp_path, env={**os.environ, **environment}, capture_output=True, text=True, check=True
        )  # fmt: skip
        return "sh envs/create-venv" in done.stdout

    assert makes(f"PYTHON={other}") and makes("PYTHON=gone")
    # The same under another name is the same, and what the environment says is for the first time alone.
    assert not makes() and not makes(f"PYTHON={Path(sys.executable).resolve()}")
    assert not makes(PYTHON=str(other))
