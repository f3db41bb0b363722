"""An advice while it is measured: what is left of its time, and probes of its sites between two looks."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hyperslab.advising import at_sites
from hyperslab.advising.budget import LOOK_S
from hyperslab.studies import advised

# Why no more rounds are added.
TIME_ENDED = "the time that the advice may take ends"
# A site is not probed again for less than this, seconds.
PROBING_S = 5.0


class Course:
    """The course of the advice whose prediction is at a place; of one without an end where there is none."""

    def __init__(self, prediction: Path) -> None:
        self._deadline: float | None = None
        self._sites: dict[str, Any] = {}
        # site -> probes after the first one
        self.probes: dict[str, list[dict[str, Any]]] = {}
        with suppress(FileNotFoundError):
            told = json.loads(prediction.read_text(encoding="utf-8"))
            self._deadline = float(told["deadline_wall_s"])
            self._sites = {name: site["described"] for name, site in told["sites"].items()}

    @classmethod
    def of(cls, study: str) -> Course:
        """Return the course of a study, which may be none that asks for advice."""
        return cls(advised.prediction(study))

    @property
    def left(self) -> float | None:
        """Seconds until it should end; None where it may take as long as it does."""
        return None if self._deadline is None else self._deadline - time.time()

    def fits(self, cells: int, records: Sequence[Path]) -> bool:
        """Tell whether so many more cells can be measured in time, by how long those of `records` took."""
        if self.left is None:
            return True
        moments = sorted(record.stat().st_mtime for record in records)
        each = (moments[-1] - moments[0]) / max(1, len(moments) - 1) if moments else 0.0
        return LOOK_S + cells * each <= self.left

    def probe(self) -> None:
        """Probe the sites of this machine again, where there is time; one that fails is left out."""
        for name, site in self._sites.items():
            if site["executor"] == "local" and self.left is not None and self.left > PROBING_S:
                with suppress(at_sites.OutOfReach):
                    self.probes.setdefault(name, []).append(asdict(at_sites.probed(site, False)))
