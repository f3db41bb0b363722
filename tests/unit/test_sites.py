"""Sites: roots filled in, and refused before anything is written where they cannot serve."""

from __future__ import annotations

import getpass
import os
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from golden_specifications import ROOT, planned, studies

from hyperslab import formats
from hyperslab.data.values import MixedIndices
from hyperslab.measuring import machine
from hyperslab.planning.invocation import Invocation
from hyperslab.planning.request import Request
from hyperslab.planning.site_checks import (
    RESERVE_BYTES,
    RESERVE_FILES,
    check_results,
    check_roots,
    largest_bytes,
    largest_files,
    sites_of,
)
from hyperslab.planning.sites_table import tables
from hyperslab.sites import mounts, roots
from hyperslab.sites.configuration import EXAMPLE, configured_file, load_sites, usual_file
from hyperslab.sites.roots import MARKER
from hyperslab.studies.study import LoadedStudy
from hyperslab.validation.errors import ConfigurationError

SITES = """
platforms:
  local: {executor: local}
  nodes: {executor: slurm}
file_systems:
  disk: {root: testfiles}
  scratch: {root: /scratch/mine, cap_bytes: 1000}
sites:
  disk: {file_system: disk}
  far: {platform: nodes, file_system: scratch, label: Far away}
"""
STUDY = """
title: t
dataset: {axes: [x, y, z], shape: [20, 30, 400]}
layouts: {contiguous: , 1x1x8: {chunks: [1, 1, 8]}}
cases: {slices: {read: {z: 25}}}
"""


def sites_file(directory: Path, content: str | dict[str, Any]) -> Path:
    file = directory / "sites.yaml"
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content), encoding="utf-8")
    return file


def one_site(directory: Path, **file_system: Any) -> tuple[Path, Any]:
    """A file with one site "here" on the file system given, and what it resolves to."""
    file = sites_file(
        directory, {"file_systems": {"fs": file_system}, "sites": {"here": {"file_system": "fs"}}}
    )
    return file, load_sites(file)


def study_of(directory: Path, text: str = STUDY, **more: Any) -> LoadedStudy:
    file = directory / "study.yaml"
    file.write_text(yaml.safe_dump({**yaml.safe_load(text), **more}), encoding="utf-8")
    return LoadedStudy(file)


def mistake(directory: Path, work: Callable[[], Any]) -> str:
    """The one line of a ConfigurationError, without the directory of the file that it begins with."""
    with pytest.raises(ConfigurationError) as error:
        work()
    text = str(error.value)
    assert text.splitlines() == [text]
    assert text.startswith(str(directory))
    return text.removeprefix(f"{directory}/")


# ---- what the file means


def test_a_users_own_file_of_sites_stands_in_for_the_example(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    assert usual_file(tmp_path) == config / "sites.yaml"
    (config / "sites.local.yaml").touch()
    assert usual_file(tmp_path) == config / "sites.local.yaml"
    named = [Request({"sites": name}, Invocation(), tmp_path).sites_file for name in (EXAMPLE, "other.yaml")]
    assert named == [config / "sites.local.yaml", tmp_path / "other.yaml"]
    # What asks without a run asks for the same.
    assert configured_file(tmp_path) == config / "sites.local.yaml"
    (config / "config.yaml").write_text("study: quick\nsites: other.yaml\n", encoding="utf-8")
    assert configured_file(tmp_path) == tmp_path / "other.yaml"


def test_sites_with_every_default_filled_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sites = load_sites(sites_file(tmp_path, SITES))
    assert list(sites) == ["disk", "far"]
    disk = sites["disk"]
    assert {key: disk[key] for key in ("name", "platform", "executor", "file_system", "root")} == {
        "name": "disk",
        "platform": "local",
        "executor": "local",
        "file_system": "disk",
        "root": str(tmp_path / "testfiles"),
    }
    assert [disk[key] for key in ("cap_bytes", "stripe", "cgroup", "concurrency")] == [None] * 4
    far = sites["far"]
    assert (far["platform"], far["executor"], far["root"]) == ("nodes", "slurm", "/scratch/mine")
    assert far["cap_bytes"] == 1000


def test_this_machine_needs_no_platform(tmp_path: Path) -> None:
    _, sites = one_site(tmp_path, root="/r")
    assert (sites["here"]["platform"], sites["here"]["executor"]) == ("local", "local")


@pytest.mark.parametrize(
    ("root", "expanded"),
    [
        ("/a/$WHERE/b", "/a/some where/b"),
        ("/a/${WHERE}s", "/a/some wheres"),
        ("$WHERE-$WHEREVER", "{cwd}/some where-else"),
        ("~/x", "/home/me/x"),
        ("$MONEY", "{cwd}/$5"),
    ],
)
def test_variables_and_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str, expanded: str
) -> None:
    monkeypatch.chdir(tmp_path)
    variables = {"WHERE": "some where", "WHEREVER": "else", "HOME": "/home/me", "MONEY": "$5"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    _, sites = one_site(tmp_path, root=root)
    assert sites["here"]["root"] == expanded.format(cwd=tmp_path)


def test_user_is_known_even_where_the_variable_is_not_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("USER", raising=False)
    _, sites = one_site(tmp_path, root="/dev/shm/of-$USER")
    assert sites["here"]["root"] == f"/dev/shm/of-{getpass.getuser()}"


@pytest.mark.parametrize("root", ["/a/$NO_SUCH", "/a/${NO_SUCH}/b", "$NO_SUCH"])
def test_unknown_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str) -> None:
    # A variable whose name begins like that of a known one is still unknown.
    monkeypatch.setenv("NO", "known")
    monkeypatch.delenv("NO_SUCH", raising=False)
    text = mistake(tmp_path, lambda: one_site(tmp_path, root=root))
    expected = f"sites.yaml: file_systems.fs.root: {root}: the environment variable NO_SUCH is not set"
    assert text == expected


def test_unknown_user(tmp_path: Path) -> None:
    text = mistake(tmp_path, lambda: one_site(tmp_path, root="~nobody-by-this-name/x"))
    assert text == "sites.yaml: file_systems.fs.root: ~nobody-by-this-name/x: there is no such user"


WRONG: list[tuple[str, Any, str]] = [
    ("sites.disk.file_system", "dsk", "sites.disk.file_system: unknown 'dsk'; there are disk, scratch"),
    ("sites.far.platform", "nods", "sites.far.platform: unknown 'nods'; there are local, nodes"),
    (
        "sites.disk.filesystem",
        "disk",
        "sites.disk.filesystem: unknown key; allowed are platform, file_system, label",
    ),
    ("file_systems.disk.path", "/x", "file_systems.disk.path: unknown key; allowed are root, cap_bytes"),
    ("platforms.nodes.exec", "x", "platforms.nodes.exec: unknown key; allowed are executor"),
    ("site", {}, "site: unknown key; allowed are platforms, file_systems, sites"),
    ("platforms.nodes.executor", "pbs", "platforms.nodes.executor: should be 'local' or 'slurm', not 'pbs'"),
    (
        "file_systems.disk.cap_bytes",
        "1 TB",
        "file_systems.disk.cap_bytes: should be a valid integer, not '1 TB'",
    ),
    ("file_systems.disk", {}, "file_systems.disk.root: this key is required"),
    ("sites", {}, "sites: Dictionary should have at least 1 item"),
    ("sites.a/b", {"file_system": "disk"}, "sites.a/b: should begin with a letter or digit and consist of"),
]


@pytest.mark.parametrize(("path", "value", "expected"), WRONG, ids=lambda part: str(part)[:40])
def test_mistakes_are_one_line(tmp_path: Path, path: str, value: Any, expected: str) -> None:
    content = yaml.safe_load(SITES)
    *parents, last = path.split(".")
    inner = content
    for part in parents:
        inner = inner[part]
    inner[last] = value
    text = mistake(tmp_path, lambda: load_sites(sites_file(tmp_path, content)))
    assert text.removeprefix("sites.yaml: ")[: len(expected)] == expected


def test_a_site_given_twice(tmp_path: Path) -> None:
    file = sites_file(tmp_path, SITES + "  disk: {file_system: scratch}\n")
    text = mistake(tmp_path, lambda: load_sites(file))
    assert text == "sites.yaml: sites.disk: this key is given twice, in lines 9 and 11"


def test_the_table_names_what_lies_in_a_root_whoever_left_it(tmp_path: Path) -> None:
    """Nobody else finds what a clone left that is gone, or a version by which it had another name."""
    file, sites = one_site(tmp_path, root=str(tmp_path / "files"))
    for name in ("quick", "quick-0123abcd"):
        (tmp_path / "files" / name).mkdir(parents=True)
    # What no run has used is of its owner alone.
    assert "quick" not in tables(sites)
    roots.prepare(str(tmp_path / "files"), roots.Root())
    assert "folders in it: quick, quick-0123abcd" in tables(sites)
    for number in range(5):
        (tmp_path / "files" / f"study-{number}").mkdir()
    assert "in it: quick, quick-0123abcd, study-0, study-1, study-2 and 2 more" in tables(sites)


# ---- sites of a study


def test_sites_of_a_study(tmp_path: Path) -> None:
    file = sites_file(tmp_path, SITES)
    sites = load_sites(file)
    assert sites_of(study_of(tmp_path), sites, file) == ["disk", "far"]
    assert sites_of(study_of(tmp_path, sites=["far"]), sites, file) == ["far"]


def test_a_price_at_a_site_that_nobody_describes_is_one_line(tmp_path: Path) -> None:
    file = sites_file(tmp_path, SITES)
    prices = {"source": "x", "date": "2026-01-31", "stored_at": {"dsik": 0.1}}
    with pytest.raises(ConfigurationError, match="prices.stored_at: no site 'dsik'; .* has disk, far"):
        sites_of(study_of(tmp_path, prices=prices), load_sites(file), file)


@pytest.mark.parametrize("name", sorted(studies()))
def test_the_sites_of_a_study_are_in_the_file_that_it_names(name: str) -> None:
    study = planned(name)
    described = study.study.sites_file
    file = described.file if described else "config/sites.yaml"
    # Another is made by the commands that stand beside it.
    if file.startswith("config/"):
        sites = load_sites(ROOT / file)
        assert sites_of(study, sites, ROOT / file)
    else:
        assert described and described.make


@pytest.mark.parametrize(
    ("wanted", "case", "expected"),
    [
        (["disk", "dsik"], "*", "study.yaml: sites: no site 'dsik'; {file} has disk, far"),
        (["disk", "far", "disk"], "*", "study.yaml: sites: 'disk' is named twice"),
        (["disk"], "dsik*", "study.yaml: cases.slices.sites: 'dsik*' matches no site; {file} has disk, far"),
    ],
)
def test_unknown_sites_of_a_study(tmp_path: Path, wanted: list[str], case: str, expected: str) -> None:
    file = sites_file(tmp_path, SITES)
    cases = {"slices": {"read": {"z": 25}, "sites": [case]}}
    study = study_of(tmp_path, sites=wanted, cases=cases)
    text = mistake(tmp_path, lambda: sites_of(study, load_sites(file), file))
    assert text == expected.format(file=file)


def test_a_case_at_none_of_the_sites_of_its_study_is_no_silent_loss(tmp_path: Path) -> None:
    file = sites_file(tmp_path, SITES)
    cases: dict[str, Any] = {"slices": {"read": {"z": 25}}, "far": {"read": {"z": 1}, "sites": ["far"]}}
    study = study_of(tmp_path, sites=["disk"], cases=cases)
    text = mistake(tmp_path, lambda: sites_of(study, load_sites(file), file))
    assert text == "study.yaml: cases.far.sites: none of them is a site of this study, which has disk"
    # A case may name more sites than the study has just now.
    cases["far"]["sites"] = ["far", "disk"]
    assert sites_of(study_of(tmp_path, sites=["disk"], cases=cases), load_sites(file), file) == ["disk"]


# ---- roots


def refusal(directory: Path, **file_system: Any) -> str:
    file, sites = one_site(directory, **file_system)
    return mistake(directory, lambda: check_roots(study_of(directory), ["here"], sites, file))


def test_a_good_root_passes_and_stays_as_it_is(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for place in (root, root / "not" / "yet"):
        file, sites = one_site(tmp_path, root=str(place))
        check_roots(study_of(tmp_path), ["here"], sites, file)
    assert list(root.iterdir()) == []


def test_a_root_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for root in (tmp_path / "file", tmp_path / "file" / "deeper"):
        expected = f"file_systems.fs.root: {root} cannot be written (tried in {tmp_path / 'file'})"
        assert refusal(tmp_path, root=str(root)) == f"sites.yaml: {expected}"


def test_a_root_in_a_file_system_that_takes_no_files(tmp_path: Path) -> None:
    # Even a superuser cannot write there.
    text = refusal(tmp_path, root="/proc/hyperslab/root")
    assert text == "sites.yaml: file_systems.fs.root: /proc/hyperslab/root cannot be written (tried in /proc)"


def test_a_root_without_permission(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    with tempfile.TemporaryDirectory() as closed:
        os.chmod(closed, 0o555)
        file, sites = one_site(tmp_path, root=f"{closed}/root")
        user = os.geteuid()
        if user == 0:
            # A superuser may write anywhere; nobody may not, nor may one without privileges (in a container).
            with suppress(PermissionError):
                os.seteuid(65534)
        try:
            text = mistake(tmp_path, lambda: check_roots(study, ["here"], sites, file))
        finally:
            os.seteuid(user)
    assert text == f"sites.yaml: file_systems.fs.root: {closed}/root cannot be written (tried in {closed})"


def test_a_file_system_too_small_by_its_cap(tmp_path: Path) -> None:
    needed = largest_bytes(study_of(tmp_path)) + RESERVE_BYTES
    text = refusal(tmp_path, root=str(tmp_path), cap_bytes=needed - 1)
    expected = f"{tmp_path} has 0.07 GB, but study study needs 0.07 GB for one test artifact"
    assert text == f"sites.yaml: file_systems.fs.root: {expected}"
    file, sites = one_site(tmp_path, root=str(tmp_path), cap_bytes=needed)
    check_roots(study_of(tmp_path), ["here"], sites, file)


@pytest.mark.parametrize(
    "case",
    [
        {"summaries": {"z": "all"}, "processes": [1], "fetch": True, "states": ["cold"]},
        {"subvolumes": {"along": "z", "ways": ["independent"]}, "ranks": [2]},
    ],
    ids=["fetched", "written by ranks beside a plain file"],
)
def test_a_root_has_room_for_what_is_copied_there(tmp_path: Path, case: dict[str, Any]) -> None:
    study = study_of(tmp_path, cases={"copied": case})
    needed = 2 * largest_bytes(study) + RESERVE_BYTES
    file, sites = one_site(tmp_path, root=str(tmp_path), cap_bytes=needed - 1)
    text = mistake(tmp_path, lambda: check_roots(study, ["here"], sites, file))
    assert text.endswith("GB for one test artifact and what is copied of it")
    file, sites = one_site(tmp_path, root=str(tmp_path), cap_bytes=needed)
    check_roots(study, ["here"], sites, file)


def test_a_root_has_room_for_all_that_lie_there_at_once(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    needed = 4 * largest_bytes(study) + RESERVE_BYTES
    file, sites = one_site(tmp_path, root=str(tmp_path), cap_bytes=needed - 1)
    text = mistake(tmp_path, lambda: check_roots(study, ["here"], sites, file, {"here": 4}))
    assert text.endswith("GB for 4 test artifacts at once")
    file, sites = one_site(tmp_path, root=str(tmp_path), cap_bytes=needed)
    check_roots(study, ["here"], sites, file, {"here": 4})


def test_a_root_needs_room_for_what_is_measured_there_and_no_more(tmp_path: Path) -> None:
    part = {"read": {"z": 1}, "shape": {"z": 40}}
    cases = {"slices": {"read": {"z": 25}, "sites": ["far"]}, "part": part}
    layouts = {"z": {"format": "zarr", "chunks": [1, 2, 8]}}
    study = study_of(tmp_path, layouts=layouts, cases=cases)
    for bound in (largest_bytes, largest_files):
        assert bound(study, ["here"]) < bound(study) / 2
        assert bound(study, ["here", "far"]) == bound(study, ["far"]) == bound(study)
    needed = largest_bytes(study, ["here"]) + RESERVE_BYTES
    file, sites = one_site(tmp_path, root=str(tmp_path), cap_bytes=needed)
    check_roots(study, ["here"], sites, file)


def test_the_largest_study_that_comes_along_is_refused_where_it_has_no_room(tmp_path: Path) -> None:
    large = LoadedStudy(Path(__file__).parents[2] / "config" / "studies" / "ncep-large.yaml")
    assert large.dataset.nbytes == 7850 * 720 * 1440 * 4
    file, sites = one_site(tmp_path, root=str(tmp_path), cap_bytes=large.dataset.nbytes)
    text = mistake(tmp_path, lambda: check_roots(large, ["here"], sites, file))
    assert f"{tmp_path} has 32.56 GB, but study ncep-large needs" in text and text.count("\n") == 0
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_system_with_too_few_inodes(tmp_path: Path, require: Callable[[str | None], None]) -> None:
    require("mounting a file system with few inodes needs root" if os.geteuid() else None)
    study = study_of(tmp_path, layouts={"z": {"format": "zarr", "chunks": [1, 2, 8]}})
    needed = largest_files(study) + RESERVE_FILES
    root = tmp_path / "few"
    root.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", f"size=256m,nr_inodes={needed}", "tmpfs", str(root)]
    subprocess.run(mounted, check=True)
    try:
        file, sites = one_site(tmp_path, root=str(root))
        # The root directory itself has one.
        text = mistake(tmp_path, lambda: check_roots(study, ["here"], sites, file))
        assert f"{root} has room for {needed - 1:,} files, but study study needs {needed:,}" in text
        subprocess.run(["mount", "-o", f"remount,nr_inodes={needed + 1}", str(root)], check=True)
        check_roots(study, ["here"], sites, file)
    finally:
        subprocess.run(["umount", str(root)], check=True)


def test_a_file_system_that_is_too_small(tmp_path: Path) -> None:
    dataset = {"axes": ["x", "y"], "shape": [2**30, 2**24]}
    study = study_of(tmp_path, dataset=dataset, layouts={"c": None}, cases={"w": {"write": "whole"}})
    # A cap larger than what is free frees nothing.
    file, sites = one_site(tmp_path, root=str(tmp_path), cap_bytes=2**61)
    text = mistake(tmp_path, lambda: check_roots(study, ["here"], sites, file))
    assert text.endswith("but study study needs 36028797.09 GB for one test artifact")


def test_a_root_in_memory_has_what_programs_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, (file, sites) = study_of(tmp_path), one_site(tmp_path, root=str(tmp_path))
    needed = largest_bytes(study) + RESERVE_BYTES
    monkeypatch.setattr(mounts, "mount_of", lambda _: mounts.Mount("/", "tmpfs", "tmpfs", "rw"))
    monkeypatch.setattr(machine, "available_memory_bytes", lambda: needed - 1)
    text = mistake(tmp_path, lambda: check_roots(study, ["here"], sites, file))
    said = f"{tmp_path} has 0.07 GB of memory that programs leave, but study study needs 0.07 GB"
    assert text == f"sites.yaml: file_systems.fs.root: {said} for one test artifact"
    monkeypatch.setattr(machine, "available_memory_bytes", lambda: needed)
    check_roots(study, ["here"], sites, file)
    # On a disk it is nothing but page cache.
    monkeypatch.setattr(mounts, "mount_of", lambda _: mounts.Mount("/", "ext4", "/dev/sda1", "rw"))
    monkeypatch.setattr(machine, "available_memory_bytes", lambda: 0)
    check_roots(study, ["here"], sites, file)


def test_a_file_system_in_memory_that_counts_no_blocks_has_what_programs_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, (file, sites) = study_of(tmp_path), one_site(tmp_path, root=str(tmp_path))
    needed = largest_bytes(study) + RESERVE_BYTES
    nothing = SimpleNamespace(f_blocks=0, f_bavail=0, f_frsize=4096, f_files=0, f_favail=0)
    monkeypatch.setattr(os, "statvfs", lambda _: nothing)
    monkeypatch.setattr(mounts, "mount_of", lambda _: mounts.Mount("/", "ramfs", "ramfs", "rw"))
    monkeypatch.setattr(machine, "available_memory_bytes", lambda: needed)
    check_roots(study, ["here"], sites, file)
    monkeypatch.setattr(machine, "available_memory_bytes", lambda: needed - 1)
    assert "GB of memory that programs leave" in mistake(
        tmp_path, lambda: check_roots(study, ["here"], sites, file)
    )


def test_results_that_cannot_be_written_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_results()
    results = tmp_path / "results"
    results.symlink_to("purged")
    assert mistake(tmp_path, check_results) == "results: leads to purged, which is not there"
    (tmp_path / "purged").touch()
    assert mistake(tmp_path, check_results) == "results: cannot be written"
    (tmp_path / "purged").unlink()
    (tmp_path / "purged").mkdir()
    check_results()


def test_only_the_sites_asked_for_are_looked_at(tmp_path: Path) -> None:
    file = sites_file(
        tmp_path, SITES.replace("/scratch/mine", "/proc/none").replace("testfiles", str(tmp_path))
    )
    check_roots(study_of(tmp_path), ["disk"], load_sites(file), file)


@pytest.mark.parametrize("libver", ["earliest", "v108", "v110", "latest"])
def test_no_test_file_is_larger_than_foreseen(tmp_path: Path, libver: str) -> None:
    filters: list[list[Any]] = [
        [],
        ["gzip"],
        ["shuffle", "gzip", "fletcher32"],
        ["lzf"],
        [{"szip": 8}, "fletcher32", "fletcher32"],
        [{"blosc2": "lz4"}, "bzip2"],
        [{"bitshuffle": "zstd"}, "lz4", "fletcher32"],
    ]
    layouts = {
        f"{number}.{size}": {"chunks": [1, 1, size], "filters": chosen}
        for number, chosen in enumerate(filters)
        for size in (8, 150)
    }
    more: dict[str, Any] = {
        "dataset": {"axes": ["x", "y", "z"], "shape": [6, 8, 400]},
        "settings": {"libver": libver},
    }
    study = study_of(tmp_path, layouts={"contiguous": None, **layouts}, **more)
    largest = largest_bytes(study)
    values = MixedIndices(study.dataset.shape, study.dataset.dtype)
    for name, layout in study.layouts.items():
        spec: Any = {"dataset": study.dataset.model_dump(), "layout": layout}
        formats.load("hdf5").generate(str(tmp_path / f"{name}.h5"), spec, values)
        single = study_of(tmp_path, layouts={name: {**layout, "settings": {}}}, **more)
        # Without the allowance for headers, which would hide a wrong sum in files as small as these.
        foreseen = largest_bytes(single) - 2**16 + 8192
        assert (tmp_path / f"{name}.h5").stat().st_size <= foreseen, name
        assert foreseen <= largest


def test_prepared_roots_have_their_marker(tmp_path: Path) -> None:
    root = tmp_path / "a" / "b"
    for _ in range(2):
        roots.prepare(str(root), roots.Root())
        assert [path.name for path in root.iterdir()] == [MARKER]
