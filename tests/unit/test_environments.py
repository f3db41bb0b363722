"""Lock, conda environments and container definition agree, and name all that the scripts import."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from update_pins import updated, versions

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "workflow" / "scripts"
ENVIRONMENTS = sorted(path.stem for path in (ROOT / "envs").glob("*.yaml"))
LOCKS = sorted([*ROOT.glob("requirements*.lock"), *ROOT.glob("envs/*.lock")])
DISTRIBUTIONS = {
    "google_crc32c": "google-crc32c", "yaml": "pyyaml", "OpenVisus": "openvisusnogui",
    "obspec_utils": "obspec-utils", "requests_unixsocket": "requests-unixsocket",
}  # fmt: skip
# What has an environment of its own: MPI's is no wheel (envs/mpi), that of OpenVisus needs Python 3.11;
# servers, and clients and gateway of object stores, come with much that nothing else needs. Dask serves cases
# of its workers alone.
STORES = {
    "aiohttp", "boto3", "botocore", "fsspec", "moto", "obspec-utils", "obstore", "s3fs", "virtualizarr",
    "werkzeug", "xarray", "yarl",
}  # fmt: skip
SERVERS = {"h5pyd", "pydap", "webob", "gunicorn", "requests", "requests-unixsocket"}
APART = {"mpi4py", "openvisusnogui", "dask", "distributed"} | STORES | SERVERS
RULES = [ROOT / "Snakefile", *sorted((ROOT / "rules").glob("*.smk"))]


def pins(path: str) -> dict[str, str]:
    """Package -> version of a lock, of its source or of an environment file."""
    return versions((ROOT / path).read_text())


def environment(name: str) -> dict[str, str]:
    """Package -> version that envs/<name>.yaml pins."""
    return pins(f"envs/{name}.yaml")


@cache
def tree_of(file: Path) -> ast.Module:
    """A file's syntax tree, parsed once."""
    return ast.parse(file.read_text())


@cache
def nodes_of(file: Path) -> tuple[ast.AST, ...]:
    """All nodes of that tree, walked through once."""
    return tuple(ast.walk(tree_of(file)))


@cache
def module_files() -> dict[str, Path]:
    """Module name -> file of everything in workflow/scripts."""
    files = {}
    for path in SCRIPTS.rglob("*.py"):
        parts = path.relative_to(SCRIPTS).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


@cache
def imported(file: Path) -> frozenset[str]:
    """Every module that a file imports, wherever the statement stands."""
    return frozenset(_imported(file))


def _imported(file: Path) -> Iterator[str]:
    # What only a type checker reads is imported by nobody.
    unread = {
        id(inner)
        for node in nodes_of(file)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in nodes_of(file):
        if id(node) in unread:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (module := _from(node, file)):
            named = [f"{module}.{alias.name}" for alias in node.names]
            yield from (name if name in module_files() else module for name in named)


def _from(node: ast.ImportFrom, file: Path) -> str:
    """The whole name of the module of which something is imported, also from within its package."""
    if not node.level:
        return node.module or ""
    package = file.relative_to(SCRIPTS).parts[: -node.level]
    return ".".join([*package, *([node.module] if node.module else [])])


def is_text(node: ast.AST, text: str) -> bool:
    """Whether a node is this text."""
    return isinstance(node, ast.Constant) and node.value == text


@cache
def mentioned(file: Path) -> frozenset[str]:
    """What a file imports, or names in a text as the registries of formats and cases do."""
    return imported(file) | frozenset(_named(file))


def _named(file: Path) -> Iterator[str]:
    nodes = nodes_of(file)
    # What follows "-m" is a command that another process runs.
    lists = [node.elts for node in nodes if isinstance(node, ast.List)]
    run = {id(b) for parts in lists for a, b in zip(parts, parts[1:], strict=False) if is_text(a, "-m")}
    for node in nodes:
        if (
            isinstance(node, ast.Constant)
            and id(node) not in run
            and (text := str(node.value)).startswith("hyperslab.")
        ):
            # "hyperslab.figures." is how a name begins that is put together: any module there may be meant.
            begun = text.endswith(".")
            yield from (name for name in module_files() if name == text or (begun and name.startswith(text)))


def run_in(name: str) -> set[str]:
    """The modules that rules run in envs/<name>.yaml."""
    rules = (rule for file in RULES for rule in re.split(r"^ *(?:use )?rule\b", file.read_text(), flags=re.M))
    mine = " ".join(rule for rule in rules if f"envs/{name}.yaml" in rule)
    return set(re.findall(r"(?<= )hyperslab\.[\w.]+(?=[ \"])|(?<=/workflow/scripts/)\w+(?=\.py)", mine))


def reached(start: set[str]) -> set[str]:
    """The project's modules that the given ones import, directly or not."""
    files = module_files()
    assert start <= set(files)
    found: set[str] = set()
    waiting = list(start)
    while waiting:
        name = waiting.pop()
        if name in files and name not in found:
            found.add(name)
            waiting += mentioned(files[name])
            waiting += [name.rpartition(".")[0]]
    return found


def packages(modules: set[str]) -> set[str]:
    """Distributions that the given modules of this project import."""
    files = module_files()
    own = {name.partition(".")[0] for name in files}
    tops = {name.partition(".")[0] for module in modules for name in mentioned(files[module])}
    return {DISTRIBUTIONS.get(top, top) for top in tops - own - set(sys.stdlib_module_names)}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_a_lock_pins_each_package_once_by_hash_and_names_no_address(lock: Path) -> None:
    text = lock.read_text()
    assert not re.search(r"//|@ |^\s*-(-(extra-)?index-url|-find-links|i|f)\b", text, re.MULTILINE)
    entries = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert entries and all("==" in entry and "--hash=sha256:" in entry for entry in entries)
    assert len(versions(text)) == len(entries)


def test_the_locks_hold_what_their_sources_ask_for() -> None:
    runtime, development = pins("requirements.lock"), pins("requirements-dev.lock")
    assert pins("requirements.in").items() <= runtime.items()
    assert pins("requirements-dev.in").items() <= development.items()
    assert pins("envs/pip.in") == pins("envs/pip.lock")
    # Both are installed into one environment.
    assert all(runtime.get(package, version) == version for package, version in development.items())


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_environment_has_the_versions_of_the_lock(name: str) -> None:
    assert environment(name)
    assert environment(name).items() <= pins("requirements.lock").items()


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_environment_leaves_nothing_to_the_resolver(name: str) -> None:
    for package in environment(name):
        required = [Requirement(line) for line in metadata.requires(package) or []]
        needed = {
            re.sub(r"[-_.]+", "-", requirement.name).lower()
            for requirement in required
            if not requirement.marker or requirement.marker.evaluate({"extra": ""})
        }
        assert needed <= set(environment(name)), package


def test_lower_versions_in_an_environment_follow_the_lock() -> None:
    text = "  - python=3.13\n  - pip:\n      - numpy==1.0  # why\n"
    assert updated(text, {"numpy": "2.4.6"}) == text.replace("1.0", "2.4.6")


def test_environments_and_container_have_one_python() -> None:
    files = [*(f"{name}.yaml" for name in ENVIRONMENTS), "hyperslab.def"]
    texts = [(ROOT / "envs" / file).read_text() for file in files]
    pythons = [
        re.findall(r"^  - python=(.+)$|^From: python:([0-9.]+)-", text, re.MULTILINE) for text in texts
    ]
    assert all(len(found) == 1 for found in pythons)
    assert len({conda or docker for [(conda, docker)] in pythons}) == 1


def test_the_container_installs_the_locks_alone() -> None:
    definition = (ROOT / "envs" / "hyperslab.def").read_text()
    installs = [line.strip() for line in definition.splitlines() if "pip install" in line]
    assert [line.rpartition("/")[2] for line in installs] == ["requirements.lock"]
    assert all("--require-hashes" in line for line in installs)
    copied = dict(re.findall(r"^    (\S+) /opt/hyperslab/(\S+)$", definition, re.MULTILINE))
    assert copied and all(source == target and (ROOT / source).exists() for source, target in copied.items())
    imported = set(re.findall(r"\w+", re.findall(r'-c "import (.+)"', definition)[0]))
    assert {DISTRIBUTIONS.get(name, name) for name in imported} >= packages(set(module_files())) - APART


def test_every_import_is_a_direct_requirement() -> None:
    required = {
        **pins("requirements.in"),
        **pins("envs/mpi/mpi4py.in"),
        **pins("envs/releases/openvisus-2.2.149.in"),
        **pins("envs/releases/object-store.in"),
        **pins("envs/releases/dask-2026.8.0.in"),
        **pins("envs/releases/hsds-1.0.2.in"),
        **pins("envs/releases/pydap-3.5.9.in"),
    }
    assert packages(set(module_files())) <= set(required)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_environment_has_what_its_rules_import(name: str) -> None:
    scripts = run_in(name)
    assert scripts, "no rule uses this environment"
    # Snakemake lends itself to the scripts that it runs.
    assert packages(reached(scripts)) - {"snakemake"} - (APART - {"mpi4py"}) <= set(environment(name))


def test_measuring_imports_no_table_plot_or_workflow_package() -> None:
    # pyarrow is the library of a format, which is loaded by its cells alone.
    others = {"pandas", "matplotlib", "seaborn", "snakemake"}
    assert not packages(reached(run_in("measure"))) & others


def test_reporting_never_opens_a_test_file() -> None:
    assert not packages(reached(run_in("report"))) & {"h5py", "hdf5plugin", "pyimzml"}
