"""Cases that several workers carry out: how one becomes a case a count.

A count of workers is a case of its own, so that tables, summary and comparisons need no further key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from hyperslab.studies.schema import Case, Dataset
from hyperslab.studies.worker_schema import TEAM_KINDS, Parallel

# kind of workers -> what ends the name of a case, and their names
WORKERS = {"processes": ("p", "process", "processes"), "ranks": ("r", "MPI rank", "MPI ranks")}
API_NAMES = {
    "hdf5": "parallel HDF5",
    "mpiio": "MPI-IO",
    "posix": "POSIX",
    "file-per-process": "one file a process",
}
# Cases of ranks are known by their names: the rule that runs them has MPI's resources and environment.
RANKS_NAME = re.compile(r"-\d+r$")
# What figures and tables need of such a resolved case.
TEAM_KEYS = ("family", "by", "workers", "parallel")


def variants(name: str, case: Case, dataset: Dataset) -> Iterator[tuple[str, Case]]:
    """The cases that a case stands for, one a count of workers (and interface); others stand for themselves.

    Their names end in the count: slices-4p has four processes, slices-4r four ranks. Raises ValueError for
    a name that says so of another case, and for what does not fit the dataset.
    """
    if case.kind not in TEAM_KINDS:
        if RANKS_NAME.search(name):
            raise ValueError("names that end in a hyphen, a number and r are those of cases of MPI ranks")
        yield name, case
        return
    for kind, (letter, one, many) in WORKERS.items():
        for count in getattr(case, kind) or ():
            title = f"{case.title or name}, {{}}{count} {one if count == 1 else many}"
            alone: dict[str, Any] = {"processes": None, "ranks": None, kind: [count]}
            if case.parallel is None:
                yield f"{name}-{count}{letter}", case.model_copy(update={**alone, "title": title.format("")})
                continue
            alone["shape"] = _written(case.parallel, count, dataset)
            for api in case.parallel.apis:
                alone["parallel"] = case.parallel.model_copy(update={"apis": [api]})
                alone["title"] = title.format(f"{API_NAMES[api]}, ")
                yield f"{name}-{api}-{count}{letter}", case.model_copy(update=alone)


def families(cases: Mapping[str, Mapping[str, Any]], kind: str) -> dict[str, dict[str, dict[int, str]]]:
    """Family -> kind of workers -> number of workers -> case, of the resolved cases of one kind, in order."""
    found: dict[str, dict[str, dict[int, str]]] = {}
    for name, case in cases.items():
        if case["kind"] == kind:
            by = found.setdefault(case["family"], {}).setdefault(case["by"], {})
            by[int(case["workers"])] = name
    return found


def _written(asked: Parallel, ranks: int, dataset: Dataset) -> dict[str, int]:
    """The part of the array that so many ranks hold; raises ValueError where it does not fit."""
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
