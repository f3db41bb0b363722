"""What in a file of sites once ended late or wrote where nobody meant it to: one line before that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperslab.sites.configuration import load_sites
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
    assert load_sites(file)["far"]["root"].endswith("$ONLY_THERE/x")
