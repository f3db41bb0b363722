"""From estimates to verdicts: of one comparison, and of a claim that is split into several.

Holds or fails only where the whole interval, adjusted over the claim's comparisons, lies on one side of the
bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from hyperslab.claims.kinds import Estimate
from hyperslab.studies.claims.schema import Bound

Verdict = Literal["holds", "fails", "cannot tell", "cannot be tested"]
# How a reader sees them; the first that a comparison of a claim has decides for the claim.
VERDICTS: tuple[Verdict, ...] = ("fails", "cannot be tested", "cannot tell", "holds")


def verdict_of(estimate: Estimate, bound: Bound) -> Verdict:
    """Return the verdict on one comparison."""
    low, high = estimate.low, estimate.high
    if low is None or high is None or math.isnan(estimate.value):
        return "cannot tell"
    least, most = bound.ends
    if least <= low and high <= most:
        return "holds"
    return "fails" if high < least or low > most else "cannot tell"


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on a claim: it holds only if all comparisons hold, and fails if any fails."""
    found = set(verdicts)
    return next((verdict for verdict in VERDICTS if verdict in found), "cannot be tested")
