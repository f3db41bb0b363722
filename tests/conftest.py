"""What all tests share."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from groups import Groups, turn
from preloaded import SELDOM, share

if TYPE_CHECKING:
    from slurm_clones import Clusters


def pytest_configure(config: pytest.Config) -> None:
    """Give each worker its own place for temporary files: cells lock a node there, and wait for others.

    What forks runs is one for all workers, of whoever gives out the tests.
    """
    # A thread of a library that waits busily takes the time of other workers.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    # What runs the tests may be a make, whose variables another that a test starts would take over.
    for name in ("MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS"):
        os.environ.pop(name, None)
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        place = os.path.join(tempfile.gettempdir(), f"hyperslab-{worker}")
        os.makedirs(place, exist_ok=True)
        os.environ["TMPDIR"] = os.environ["HYPERSLAB_LOCKS"] = tempfile.tempdir = place
    elif config.getoption("numprocesses", None):
        share()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The environment of the cluster's ranks may still be made when the first tests begin (.ci/run).
    items.sort(key=lambda item: (turn(item.path), item.path.name == "test_ranks.py"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Search for no garbage while tests are collected, and leave what all share out of further searches.

    These are a tenth of the time of tests, and as many seconds for each process that collects.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(*SELDOM)
        gc.enable()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups:
    return Groups(config, log)


@pytest.fixture(scope="session")
def require() -> Callable[[str | None], None]:
    """`require(reason)` goes on where `reason` is None; otherwise it skips, and in CI (CI=true) it fails."""

    def check(reason: str | None) -> None:
        if reason and os.environ.get("CI") == "true":
            pytest.fail(f"must not be absent in CI: {reason}")
        if reason:
            pytest.skip(reason)

    return check


@pytest.fixture(scope="session")
def clusters(require: Callable[[str | None], None]) -> Iterator[Clusters]:
    """What has a cluster run for tests; the last one ends with them."""
    # It lies beside the tests of a cluster, which alone find it.
    from slurm_clones import Clusters

    found = Clusters(require)
    yield found
    found.end()


@pytest.fixture(scope="session")
def yielding(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """A library for ranks that sleep while they wait for others; None where no compiler is here."""
    if (compiler := shutil.which("cc")) is None:
        return None
    library = tmp_path_factory.mktemp("yielding") / "yielding_ranks.so"
    source = Path(__file__).with_name("yielding_ranks.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    return library


@pytest.fixture
def any_launcher(monkeypatch: pytest.MonkeyPatch, yielding: Path | None) -> None:
    """Open MPI starts ranks of root, and more of them than there are processors, only where it is told to;
    MPICH's would wait busily for each other.
    """
    for name in ("ALLOW_RUN_AS_ROOT", "ALLOW_RUN_AS_ROOT_CONFIRM", "MCA_rmaps_base_oversubscribe"):
        monkeypatch.setenv(f"OMPI_{name}", "1")
    if yielding:
        monkeypatch.setenv("LD_PRELOAD", str(yielding))
