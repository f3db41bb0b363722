"""The seam of cases: a kind of case is one module here and one line in CASES."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from hyperslab.cases.context import Context, Outcome

# kind in a specification -> module with run(context)
CASES = {
    "read": "hyperslab.cases.read",
    "write": "hyperslab.cases.write",
    "objects": "hyperslab.cases.objects",
    "reduce": "hyperslab.cases.reduce.case",
    "parallel": "hyperslab.cases.parallel.case",
    "read_rows": "hyperslab.cases.rows.read",
    "write_rows": "hyperslab.cases.rows.write",
    "subvolumes": "hyperslab.cases.subvolumes.case",
    "clients": "hyperslab.cases.clients.case",
    "rewrite_rows": "hyperslab.cases.rows.rewrite",
    "resolution": "hyperslab.cases.resolution",
    "follow_rows": "hyperslab.cases.rows.follow",
    "summaries": "hyperslab.cases.reduce.case",
    "open_all": "hyperslab.cases.open_all",
}


def load(kind: str) -> Callable[[Context], Outcome]:
    """Return the function that runs a case of this kind; raises KeyError for an unknown one."""
    run: Callable[[Context], Outcome] = importlib.import_module(CASES[kind]).run
    return run
