"""How several workers (`pytest -n`) share tests out: by module, and those of the one cluster together."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController


class Groups(LoadScopeScheduling):  # type: ignore[misc]
    """What the workers of a run share."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.split("::")[0]
        return "slurm" if "/slurm/" in module else module

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
