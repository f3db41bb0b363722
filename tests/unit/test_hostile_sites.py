"""What in a file of sites once ended late or wrote where nobody meant it to: one line before that."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from studies import BASE

from hyperslab.planning.inventory import Inventory
from hyperslab.planning.study_checks import check_room
from hyperslab.sites import mounts, roots
from hyperslab.sites.configuration import load_sites, prepare_root
from hyperslab.validation.errors import ConfigurationError


def said(directory: Path, platform: dict[str, Any] | None = None, **file_system: Any) -> str:
    """The one line about a file of one site."""
    file = directory / "sites.yaml"
    content = {
        "platforms": {"here": platform or {"executor": "local"}},
        "file_systems": {"fs": file_system},
        "sites": {"here": {"platform": "here", "file_system": "fs"}},
    }
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(ConfigurationError) as error:
        load_sites(file)
    text = str(error.value)
    assert text.splitlines() == [text]
    return text.removeprefix(f"{file}: ")


ROOTS = {
    "": "should have at least 1 character",
    " ": "' ' names no directory",
    "/scratch/{x}": "/scratch/{x}: a root with braces would be a pattern to Snakemake",
    "/scratch/${HOME": "/scratch/${HOME: a $ begins the name of an environment variable, $NAME or ${NAME}",
    "/scratch/$": "/scratch/$: a $ begins the name of an environment variable, $NAME or ${NAME}",
    "/scratch/${}": "/scratch/${}: a $ begins the name of an environment variable, $NAME or ${NAME}",
    "/scratch/a\0b": "should hold no control characters (U+0000)",
    "/scratch/a\nb": "'/scratch/a\\nb' has a line break",
    "/": "/: test files need a directory of their own",
    ".": ".: test files need a directory of their own",
    "a/..": "a/..: test files need a directory of their own",
    "results": "results: test files never lie inside results/",
    "results/quick/files": "results/quick/files: test files never lie inside results/",
    "$EMPTY": "$EMPTY: the environment variable EMPTY is empty",
}


@pytest.mark.parametrize("root", ROOTS)
def test_a_root_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EMPTY", "")
    assert said(tmp_path, root=root).startswith(f"file_systems.fs.root: {ROOTS[root]}")


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("extra", "--comment='a", "platforms.here: extra: is no list of options: No closing quotation"),
        ("extra", "--time 5", "platforms.here: extra: for --time there is the key minutes"),
        ("extra", "-t5", "platforms.here: extra: for -t there is the key minutes"),
        ("extra", "--gres=gpu:1", "platforms.here: extra: Snakemake's plugin for Slurm refuses --gres"),
        ("partition", "", "platforms.here.partition: should have at least 1 character"),
        ("partition", "a b", "platforms.here.partition: should be one word, not 'a b'"),
        ("account", "a\nb", "platforms.here.account: should be one word, not 'a\\nb'"),
        ("constraint", "", "platforms.here.constraint: should have at least 1 character"),
        ("minutes", 2**63, "platforms.here.minutes: should be less than or equal to"),
        ("memory_mb", 2**63, "platforms.here.memory_mb: should be less than or equal to"),
    ],
)
def test_a_platform_that_slurm_would_refuse(tmp_path: Path, key: str, value: Any, expected: str) -> None:
    assert said(tmp_path, {"executor": "slurm", key: value}, root="/r").startswith(expected)


def test_what_the_plugin_refuses_of_a_job_is_refused_before_it_is_submitted(tmp_path: Path) -> None:
    # Not by whoever only collects tests: it takes a second.
    from snakemake_executor_plugin_slurm.validation import get_forbidden_slurm_options

    patterns = "|".join(get_forbidden_slurm_options()).split("|")
    options = {found[0] for pattern in patterns if (found := re.match(r"--?[A-Za-z-]+", pattern))}
    assert {"--gpus", "-J", "--parsable"} < options
    for option in sorted(options):
        line = said(tmp_path, {"executor": "slurm", "extra": f"{option} 1"}, root="/r")
        assert line.startswith("platforms.here: extra: ") and f" {option}" in line


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("cap_bytes", 2**64, "file_systems.fs.cap_bytes: should be less than or equal to"),
        ("stripe", {"count": 10**9}, "file_systems.fs.stripe.count: should be less than or equal to"),
        ("cgroup", "", "file_systems.fs.cgroup: should have at least 1 character"),
        ("cgroup", "no/such/group", "file_systems.fs.cgroup: no/such/group: should be an absolute path"),
    ],
)
def test_a_file_system_that_cannot_be(tmp_path: Path, key: str, value: Any, expected: str) -> None:
    assert said(tmp_path, root="/r", **{key: value}).startswith(expected)


def test_what_only_a_node_knows_stays_as_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "sites.yaml"
    content = {
        "platforms": {"far": {"executor": "slurm"}},
        "file_systems": {"fs": {"root": "$ONLY_THERE/x", "node_local": True}},
        "sites": {"far": {"platform": "far", "file_system": "fs"}},
    }
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    assert load_sites(file)["far"]["root"] == "$ONLY_THERE/x"


def on_one_root(directory: Path, platform: str = "local", **other: Any) -> Any:
    """Sites of two file systems with one root, the second of which says more and lies on a platform."""
    root = directory / "files"
    content = {
        "platforms": {"local": {"executor": "local"}, "nodes": {"executor": "slurm"}},
        "file_systems": {"one": {"root": str(root)}, "other": {"root": f"{root.parent}/./files/", **other}},
        "sites": {"one": {"file_system": "one"}, "other": {"platform": platform, "file_system": "other"}},
    }
    file = directory / "sites.yaml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return load_sites(file)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cgroup", "/sys/fs/cgroup/slow"), ("read_ahead_bytes", 131072), ("node_local", True),
        ("stripe", {"count": 4}), ("store", {"start": "moto"}),
    ],
)  # fmt: skip
def test_one_root_has_one_setting(tmp_path: Path, key: str, value: Any) -> None:
    with pytest.raises(ConfigurationError) as error:
        on_one_root(tmp_path, **{key: value})
    assert str(error.value) == (
        f"{tmp_path}/sites.yaml: file_systems.other.root: {tmp_path}/files is that of one, too, "
        f"which has another {key}; give each a root of its own"
    )


def test_one_root_has_one_setting_also_where_a_link_leads_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its marker would say what the last of them says: a throttled site would not be held back."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "linked").symlink_to("files")
    (tmp_path / "config/studies").mkdir(parents=True)
    study = {**yaml.safe_load(BASE), "sites": ["one", "other"]}
    (tmp_path / "config/studies/mine.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    content = {
        "file_systems": {"one": {"root": "files"}, "other": {"root": "linked", "cgroup": "/slow"}},
        "sites": {name: {"file_system": name} for name in ("one", "other")},
    }
    file = tmp_path / "sites.yaml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    found = Inventory(tmp_path, load_sites(file), file, {}, "")
    said = "file_systems.other.root: .*/linked is that of one, too, which has another cgroup"
    with pytest.raises(ConfigurationError, match=said):
        check_room(found.study("mine"), ["one", "other"], found)


def test_one_root_may_have_two_names_and_be_two_places(tmp_path: Path) -> None:
    assert list(on_one_root(tmp_path, cap_bytes=10**9)) == ["one", "other"]
    # The disk of a node has the path that another disk has here.
    apart = on_one_root(tmp_path, platform="nodes", node_local=True, read_ahead_bytes=0)
    assert apart["one"]["root"] == apart["other"]["root"]


def test_what_another_nodes_disk_says_does_not_hold_here(tmp_path: Path) -> None:
    root = str(tmp_path / "files")
    content = {
        "platforms": {
            name: {"executor": "slurm", "memory_mb": mb} for name, mb in (("a", 1000), ("b", 4000))
        },
        "file_systems": {"disk": {"root": root, "node_local": True}},
        "sites": {name: {"platform": name, "file_system": "disk"} for name in ("a", "b")},
    }
    file = tmp_path / "sites.yaml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    # Of as many nodes each has a disk of its own, where one cell is timed at a time.
    prepare_root(load_sites(file), "b", file, {"a": 7, "b": 1000}.__getitem__)
    assert (roots.read(root).memory_mb, roots.read(root).concurrency) == (4000, 1)


@pytest.mark.parametrize(
    ("kind", "here", "far", "works", "concurrency"),
    [
        # What lies there would show it if it were asked: a link that leads to the root.
        ("nfs4", "files", "away/linked", ".", 1),
        ("nfs4", "files", "home/linked", ".", 1),
        ("fuse.sshfs", "files", "away/linked", ".", 1),
        ("autofs", "files", "away/linked", ".", 1),
        ("ext4", "files", "away/linked", ".", 3),
        ("ext4", "files", "home/linked", ".", 3),
        # Whoever measures there asks it anyway.
        ("nfs4", "away/files", "away/beside", ".", 3),
        ("nfs4", "files", "ring", ".", 1),
        # So does a run whose own directory is there, but for what else is mounted beside it.
        ("nfs4", "files", "home/linked", "away/me", 3),
        ("autofs", "files", "away/me/linked", "away/me", 3),
        ("autofs", "files", "away/other/linked", "away/me", 1),
    ],
)
def test_a_server_on_which_a_root_is_not_is_not_asked_what_leads_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, here: str, far: str, works: str,
    concurrency: int,
) -> None:  # fmt: skip
    """It may be away: a run that does without it would wait as well."""
    for name in ("files", "away", "away/files", "away/me", "away/other"):
        (tmp_path / name).mkdir()
    links = {"away/linked": "../files", "away/beside": "files", "home": "away", "ring": "ring"}
    links |= {f"away/{name}/linked": "../../files" for name in ("me", "other")}
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    monkeypatch.chdir(tmp_path / works)
    place = str(tmp_path / "away").replace(" ", "\\040")
    table = f"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:40 / {place} rw - {kind} server:/home rw\n"
    (tmp_path / "mounts").write_text(table, encoding="utf-8")
    monkeypatch.setattr(mounts, "TABLE", tmp_path / "mounts")
    content = {
        "platforms": {"nodes": {"executor": "slurm"}},
        "file_systems": {"here": {"root": str(tmp_path / here)}, "far": {"root": str(tmp_path / far)}},
        "sites": {"here": {"file_system": "here"}, "far": {"platform": "nodes", "file_system": "far"}},
    }
    file = tmp_path / "sites.yaml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    prepare_root(load_sites(file), "here", file, {"here": 1, "far": 3}.__getitem__)
    assert roots.read(str(tmp_path / here)).concurrency == concurrency


def test_a_root_lets_in_what_all_its_sites_say_whatever_leads_there(tmp_path: Path) -> None:
    """Its marker said what the site says that was last measured there, of those with the same path."""
    root = tmp_path / "files"
    root.mkdir()
    (tmp_path / "linked").symlink_to(root)
    content = {
        "platforms": {"nodes": {"executor": "slurm", "memory_mb": 2000}},
        "file_systems": {"here": {"root": str(root)}, "far": {"root": f"{tmp_path}/linked/../linked/"}},
        "sites": {
            "here": {"file_system": "here"},
            "far": {"platform": "nodes", "file_system": "far", "concurrency": 3},
        },
    }
    file = tmp_path / "sites.yaml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    sites = load_sites(file)
    for site in ("far", "here"):
        prepare_root(sites, site, file, {"here": 1, "far": 3}.__getitem__)
        found = roots.read(str(root))
        assert (found.memory_mb, found.concurrency) == (2000, 3), site
