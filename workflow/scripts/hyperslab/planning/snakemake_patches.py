"""Have Snakemake go on where a file system under test fails, or another run ends in the same moment.

A file system that fails costs its cells, not the run. Between jobs Snakemake makes directories, touches and
removes test files, and ends the whole run where it cannot. Below a root it may fail: the cell's own process
comes upon the same and says so in its log.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Sequence
from glob import glob
from pathlib import Path
from typing import Any


def tolerate(roots: Sequence[str]) -> None:
    """Let Snakemake's handling of files below these roots fail from now on."""
    from snakemake.exceptions import WorkflowError
    from snakemake.io import _IOFile
    from snakemake.jobs import Job

    def below(*files: Any) -> bool:
        return any(Path(str(file)).is_relative_to(root) for file in files for root in roots)

    def tolerant(method: Any) -> Any:
        @functools.wraps(method)
        def attempt(self: Any, *arguments: Any, **options: Any) -> Any:
            try:
                return method(self, *arguments, **options)
            except (OSError, WorkflowError):
                if not below(self):
                    raise
                return None

        return attempt

    remove, prepare = _IOFile.remove, Job.prepare

    @functools.wraps(remove)
    async def attempt_removal(self: Any, *arguments: Any, **options: Any) -> None:
        try:
            await remove(self, *arguments, **options)
        except OSError:
            if not below(self):
                raise

    @functools.wraps(prepare)
    async def attempt_preparation(self: Any) -> None:
        try:
            await prepare(self)
        except WorkflowError:
            # Its test file has gone, which it will find out itself.
            if not below(*self.input):
                raise

    _IOFile.prepare = tolerant(_IOFile.prepare)
    _IOFile.touch = tolerant(_IOFile.touch)
    _IOFile.remove = attempt_removal
    Job.prepare = attempt_preparation


def end_together() -> None:
    """Let runs on the same results end in one moment from now on: each removes the locks until they are gone.

    All remove one folder with all that is in it, and what one has just removed would fail another's run.
    """
    from snakemake.persistence.file import FilePersistence

    delete = FilePersistence._delete_locks

    @functools.wraps(delete)
    def attempt(self: Any) -> None:
        while True:
            with contextlib.suppress(FileNotFoundError):
                delete(self)
                return

    FilePersistence._delete_locks = attempt


# Between two looks at the markers of batches, which ask nothing of Slurm.
LOOK_SECONDS = 1.0


# So long after its marker a job takes to end, and Slurm is asked this often meanwhile.
ENDING_SECONDS = 20.0


SOON_SECONDS = 2.0


class Looks:
    """Shortens the sleep between two looks at the queue, which else grows to minutes while a batch runs."""

    def __init__(self, executor: Any, markers: str) -> None:
        """`executor`: Snakemake's, of a cluster; `markers`: a pattern of the files that end a batch."""
        self._executor = executor
        self._pattern = markers
        self._markers = self._present()
        self._seen = -ENDING_SECONDS

    def begin(self) -> None:
        """From now on the executor sleeps as `sleep` does."""
        self._executor.sleep = self.sleep

    async def sleep(self) -> None:
        """Until the executor's own time is over, a batch has ended, or nothing is left to wait for."""
        began = time.monotonic()
        own = self._executor.next_seconds_between_status_checks
        while self._executor.wait:
            present = self._present()
            if present.items() - self._markers.items():
                self._seen = time.monotonic()
            self._markers = present
            ending = time.monotonic() - self._seen < ENDING_SECONDS
            left = began + (min(own, SOON_SECONDS) if ending else own) - time.monotonic()
            if left <= 0:
                return
            await asyncio.sleep(min(left, LOOK_SECONDS))

    def _present(self) -> dict[str, int]:
        """Every marker there is -> when it was written."""
        found = {}
        for name in glob(self._pattern):
            try:
                found[name] = Path(name).stat().st_mtime_ns
            except FileNotFoundError:
                continue
        return found
