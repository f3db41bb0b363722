"""How several workers (`pytest -n`) share tests out: by module, and some modules together.

One worker computes while the others have what mostly waits, so that no processor stands idle for long.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# Directories and modules that mostly wait: for Slurm, for runs, for stores with faults. Begun in this order:
# what takes minutes on one worker goes first.
WAITING = ("slurm", "test_store_faults.py", "test_store_study.py", "test_object_stores.py", "workflow")
# Modules that begin with one clone, measured up to its report, those whose tests look at the syntax trees of
# all modules or at all studies, which a process makes once, and those whose cells lie in one store and have
# the same parents.
OF_ONE_CLONE = (
    "test_agreement.py", "test_claims.py", "test_pipeline.py", "test_rerun.py", "test_run_requests.py",
)  # fmt: skip
PARSING = (
    "test_case_kinds.py", "test_docstrings.py", "test_environments.py", "test_mpi_environment.py",
    "test_releases.py", "test_snakemake_patches.py", "test_structure.py",
)  # fmt: skip
OF_ALL_STUDIES = (
    "test_claims_of_the_documents.py", "test_committed_packs.py", "test_figures.py", "test_golden.py",
    "test_sites.py",
)  # fmt: skip
OF_ONE_STORE = ("test_store_faults.py", "test_object_stores.py")
# A module about the process that forks runs waits with one that needs it: workers that compute need none.
FORKING = ("test_preloaded.py", "test_refusals.py")
# Both see that no control group of memory is left on the machine.
OF_CONTROL_GROUPS = ("test_node_memory.py", "test_summaries.py")
# Of one worker, as those of the one cluster are.
TOGETHER = {
    **dict.fromkeys(OF_ONE_CLONE, "workflow/one clone"),
    **dict.fromkeys(FORKING, "workflow/refusals"),
    **dict.fromkeys(OF_ONE_STORE, "workflow/one store"),
    **dict.fromkeys(OF_CONTROL_GROUPS, "control groups"),
    **dict.fromkeys(PARSING, "parsing"),
    **dict.fromkeys(OF_ALL_STUDIES, "all studies"),
}


def turn(module: PurePath) -> int:
    """When a module is begun, among those that wait; the last number where it computes."""
    names = (module.parent.name, module.name)
    return next((number for number, name in enumerate(WAITING) if name in names), len(WAITING))


class Groups(LoadScopeScheduling):  # type: ignore[misc]
    """What the workers of a run share."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.split("::")[0]
        return "slurm" if "/slurm/" in module else TOGETHER.get(PurePath(module).name, module)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give a worker the next module that waits, or where all others have one, the next that computes."""
        others = [work for other, work in self.assigned_work.items() if other is not node]
        wanted = not all(map(_waiting, others))
        for module in self.workqueue:
            if _waits(module) == wanted:
                self.workqueue.move_to_end(module, last=False)
                break
        super()._assign_work_unit(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """Give out again what a worker that crashed had not finished; returns the test in which it did.

        xdist gives out its finished modules, too. They have no test left whose end would bring a worker the
        next module, so that in the end all of them wait.
        """
        work = self.assigned_work[node]
        for module in [module for module, tests in work.items() if all(tests.values())]:
            del work[module]
        crashed: str | None = super().remove_node(node)
        return crashed


def _waits(module: str) -> bool:
    return turn(PurePath(module)) < len(WAITING)


def _waiting(work: Mapping[str, Mapping[str, bool]]) -> bool:
    """Whether a worker has tests to run that wait; `work` says of its modules which tests have ended."""
    return any(_waits(module) and not all(tests.values()) for module, tests in work.items())
