"""Have Snakemake go on where a file system under test fails, or another run ends in the same moment.

A file system that fails costs its cells, not the run. Between jobs Snakemake makes directories, touches and
removes test files, and ends the whole run where it cannot. Below a root it may fail: the cell's own process
comes upon the same and says so in its log.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
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
