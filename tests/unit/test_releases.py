"""Other releases of HDF5: their locks, the interpreter that a layout's commands go on in, and mistakes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from studies import changed, load, mistake
from test_environments import SERVERS, STORES, packages, reached, run_in

from hyperslab.layouts.hdf5_releases import RELEASES, made
from hyperslab.measuring.process import enter
from hyperslab.planning.requirements import environments, other_sites, roots_by_file_system
from update_pins import versions

ROOT = Path(__file__).parents[2]
LOCKS = {release: ROOT / "envs" / "releases" / f"hdf5-{release}.lock" for release in RELEASES}
# Only layouts with such filters or formats need them, or cases of such workers, and none names a release.
UNUSED = {
    "hdf5plugin", "pyimzml", "mpi4py", "zarr", "numcodecs", "google-crc32c", "openvisusnogui", "pyarrow",
    "dask", "distributed",
} | STORES | SERVERS  # fmt: skip


@pytest.mark.parametrize("release", RELEASES)
def test_a_lock_pins_the_wheel_that_carries_the_release(release: str) -> None:
    text = LOCKS[release].read_text(encoding="utf-8")
    pins = versions(text)
    assert pins == versions(LOCKS[release].with_suffix(".in").read_text(encoding="utf-8"))
    assert pins["h5py"] == RELEASES[release].h5py
    # Every requirement has hashes, and nothing names an address.
    assert len(re.findall(r"^\S+==\S+ \\\n    --hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)) == len(pins)
    assert "://" not in text and "index" not in text


def test_all_releases_have_the_same_numpy_and_what_measuring_imports() -> None:
    pins = [versions(lock.read_text(encoding="utf-8")) for lock in LOCKS.values()]
    assert len({found["numpy"] for found in pins}) == 1
    needed = packages(reached(run_in("measure"))) - UNUSED
    assert needed <= set(pins[0])


def _virtual_environment(directory: Path, release: str) -> Path:
    python = directory / Path(made(release)).parent / "bin" / "python"
    command = [sys.executable, "-m", "venv", "--without-pip", str(python.parent.parent)]
    subprocess.run(command, check=True)
    return python


CODE = """
import os
import sys
from hyperslab.layouts.hdf5_releases import made
from hyperslab.measuring.process import enter
enter(RELEASE and made(RELEASE))
print(sys.prefix, os.environ.get("HYPERSLAB_FORKED"), *sys.argv[1:])
"""


def _entered(directory: Path, release: str | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CODE.replace("RELEASE", repr(release)), "an argument"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT / "workflow" / "scripts"), "HYPERSLAB_FORKED": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_command_goes_on_in_the_environment_of_its_release(tmp_path: Path) -> None:
    python = _virtual_environment(tmp_path, "1.12")
    # An interpreter that was started anew is not forked, whoever asked for it.
    assert _entered(tmp_path, "1.12").stdout == f"{python.parent.parent} None an argument\n"
    assert _entered(tmp_path, None).stdout == f"{sys.prefix} 1 an argument\n"


def test_a_missing_environment_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="^the layout's own environment is not there: /"):
        enter(made("2.0"))
    enter(None)


def test_layouts_need_the_environments_of_their_releases_alone() -> None:
    releases: list[dict[str, Any]] = [{"release": "2.0"}, {}, {"release": "1.12"}, {"release": "2.0"}]
    assert environments(({"format": "hdf5", **layout}, {}) for layout in releases) == [
        ".venv-releases/hdf5-1.12/made-from.lock",
        ".venv-releases/hdf5-2.0/made-from.lock",
    ]
    assert environments([({"format": "hdf5"}, {})]) == []


def test_the_script_refuses_another_python(tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    old.chmod(0o755)
    done = subprocess.run(
        ["sh", str(ROOT / "envs" / "create-release"), str(LOCKS["1.12"]), str(tmp_path / "made")],
        env={**os.environ, "PYTHON": str(old)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: environments of their own need Python 3.11 with venv")
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "made").exists()


# ---- in a study


def test_a_release_is_part_of_a_layout(tmp_path: Path) -> None:
    study = load(tmp_path, changed("layouts.old", {"release": "1.12"}))
    assert study.layouts["old"]["release"] == "1.12"
    assert "release" not in study.layouts["contiguous"]


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"release": "1.10"}, "release: should be '1.12' or '1.14' or '2.0' (in quotes), not '1.10'"),
        ({"release": 1.12}, "release: should be a valid string, not 1.12"),
        (
            {"release": "1.12", "settings": {"libver": "v114"}},
            "settings.libver: HDF5 1.12 does not know v114",
        ),
    ],
)
def test_a_release_that_is_not_there_is_one_line(tmp_path: Path, layout: Any, message: str) -> None:
    assert mistake(tmp_path, changed("layouts.old", layout)) == f"layouts.old.{message}"


# ---- file systems for split metadata


SITES = {
    "here": {"file_system": "disk", "root": "/a"},
    "fast": {"file_system": "memory", "root": "/b"},
    "again": {"file_system": "disk", "root": "/a"},
}


def test_metadata_go_to_the_file_system_of_a_site(tmp_path: Path) -> None:
    assert roots_by_file_system(SITES) == {"disk": "/a", "memory": "/b"}
    driver = {"driver": {"name": "split", "metadata_on": "memory"}}
    study = load(tmp_path, changed("layouts.split", {"settings": driver}))
    assert other_sites(study, SITES, Path("sites.yaml")) == ["fast"]
    assert other_sites(load(tmp_path, changed("rounds", 3)), SITES, Path("sites.yaml")) == []
