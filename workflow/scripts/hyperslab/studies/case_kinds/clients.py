"""Cases of several clients: processes that ask at once for selections of several kinds, mixed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from hyperslab.studies.case_kinds.kind import CaseMistake, Resolved, Shape
from hyperslab.studies.case_kinds.selection import check_box, extent_of, is_stride
from hyperslab.studies.case_kinds.workers import PROCESSES, Team

if TYPE_CHECKING:
    from hyperslab.studies.schema import Case


class Clients(Team):
    """Requests of clients that share a server, or files: how many a second, how long each takes, how fair."""

    name = "clients"
    given = "selections that are mixed"
    options = (PROCESSES, "requests")
    keys = ("clients", "requests", "by", "workers", "family")
    protocol = 2
    older_protocols: ClassVar[Mapping[int, str]] = {
        1: "an answer was freed within the latency of the next request"
    }
    draws_boxes = True
    of_objects = True
    family_figure = "clients"

    def mistake(self, case: Case) -> str | None:
        """Return what is wrong with the counts of clients and requests, or None."""
        if not case.processes:
            return "a `clients` case needs `processes`, such as [1, 2, 4, 8]"
        if not case.requests:
            return "a `clients` case needs `requests`, which its clients share, such as 200"
        if case.requests < max(case.processes):
            return f"requests: {case.requests} are fewer than the {max(case.processes)} clients"
        if "session" in case.states:
            return "states: of a `clients` case they are cold and warm"
        return super().mistake(case)

    def counted(self, workers: str, count: int) -> str:
        """Return a count of clients in words: mixed-4p has four clients."""
        return f"{count} client{'s' * (count != 1)}"

    def resolve(self, case: Case, shape: Shape) -> dict[str, Any]:
        """Return the extents of each kind of request, their number, and who asks; raises CaseMistake."""
        assert case.clients is not None and case.processes is not None
        for kind, selection in case.clients.items():
            check_box(selection, shape, f"{self.name}.{kind}")
            if any(map(is_stride, selection.values())):
                raise CaseMistake(f"{self.name}.{kind}", "a request has extents, no strides")
        return {
            "clients": {kind: extent_of(one, shape) for kind, one in case.clients.items()},
            "requests": case.requests,
            "states": list(case.states),
            "by": PROCESSES,
            "workers": case.processes[0],
        }

    def extent(self, resolved: Resolved, values: list[int]) -> list[int]:
        """Return the extents of the largest request."""
        return list(max(resolved["clients"].values(), key=math.prod))

    def selections(self, resolved: Resolved) -> int:
        """Return how many requests a repeat makes; the warm ones are made twice."""
        return int(resolved["requests"]) * (2 if "warm" in resolved["states"] else 1)

    def apart(self, case: Resolved, title: str) -> tuple[str, str]:
        """Return the family's title, and the number of clients."""
        shared, _, clients = title.rpartition(", ")
        return shared, clients
