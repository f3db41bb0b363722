"""Cases of parallel access: what every MPI rank writes and reads, through one of several interfaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from hyperslab.studies.case_kinds.kind import CaseMistake, Resolved, Shape
from hyperslab.studies.case_kinds.workers import API_NAMES, RANKS, RankWrites

if TYPE_CHECKING:
    from hyperslab.layouts.layout import Layout
    from hyperslab.studies.dataset_schema import Dataset
    from hyperslab.studies.schema import Case
    from hyperslab.studies.worker_schema import Parallel


class ParallelAccess(RankWrites):
    """Durable writes and reads by ranks; each interface with each count of ranks is a case of its own."""

    name = "parallel"
    given = "what ranks write and read"
    keys = ("parallel", "by", "workers", "family")
    protocol = 3
    older_protocols: ClassVar[Mapping[int, str]] = {
        2: "the first read brought its buffers into memory, and POSIX worked out where its pieces "
        "lie, within the time"
    }

    def mistake(self, case: Case) -> str | None:
        """Return what is wrong with workers or states, or None."""
        wrong = super().mistake(case)
        if not wrong and "session" in case.states:
            return "a `parallel` case is read cold and warm, and has no session"
        return wrong

    def members(self, case: Case, count: int, dataset: Dataset) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield a case an interface, on the part of the array that so many ranks hold."""
        assert case.parallel is not None
        shape = _written(case.parallel, count, dataset)
        for api in case.parallel.apis:
            one = case.parallel.model_copy(update={"apis": [api]})
            yield api, API_NAMES[api], {"shape": shape, "parallel": one}

    def resolve(self, case: Case, shape: Shape) -> dict[str, Any]:
        """Return the interface and what its calls move."""
        assert case.parallel is not None and case.ranks
        asked = case.parallel
        described = {**asked.model_dump(exclude={"apis"}), "api": asked.apis[0]}
        described["block"] = asked.block or asked.transfer
        states = ["write", *case.states]
        return {"states": states, "parallel": described, "by": RANKS, "workers": case.ranks[0]}

    def check(self, case: Case, resolved: Resolved, dataset: Dataset, layout: Layout) -> None:
        """Raise CaseMistake where the interface cannot write a layout."""
        assert case.parallel is not None
        if case.parallel.apis != ["hdf5"] and layout.chunks:
            message = f"{case.parallel.apis[0]} has no chunks; name contiguous layouts"
            raise CaseMistake("layouts", message)
        # The type that describes every rank's blocks has plain counts (cases.parallel.interfaces).
        described = resolved["parallel"]
        block = described["block"] if described["interleaved"] else described["bytes"]
        if case.parallel.apis == ["mpiio"] and resolved["workers"] * block >= 2**31:
            fix = "name fewer bytes, or interleaved blocks"
            raise CaseMistake("parallel", f"mpiio describes less than 2 GiB of all ranks' blocks; {fix}")
        super().check(case, resolved, dataset, layout)

    def way(self, case: Resolved) -> str:
        """Return the interface in words."""
        return API_NAMES[case["parallel"]["api"]]


def _written(asked: Parallel, ranks: int, dataset: Dataset) -> dict[str, int]:
    """Return the part of the array that so many ranks hold; raises ValueError where it does not fit."""
    if len(dataset.axes) != 2:
        raise ValueError("parallel: needs a dataset of two axes, datasets and the elements of each")
    for key in ("bytes", "transfer", "block"):
        if (getattr(asked, key) or 0) % dataset.itemsize:
            one = f"{dataset.itemsize}, one {dataset.dtype}"
            raise ValueError(f"parallel.{key}: should be a multiple of {one}")
    wanted = dict(zip(dataset.axes, (asked.datasets, ranks * asked.bytes // dataset.itemsize), strict=True))
    for (axis, size), there in zip(wanted.items(), dataset.shape, strict=True):
        if size > there:
            raise ValueError(f"parallel: {ranks} ranks need {size} along {axis}, which has {there}")
    return wanted
