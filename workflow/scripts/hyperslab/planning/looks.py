"""When a run looks at its Slurm jobs: as rarely as the profile lets it, and at once when a batch ended."""

from __future__ import annotations

import asyncio
import time
from glob import glob
from pathlib import Path
from typing import Any

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
