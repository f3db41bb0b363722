"""The specification of a cell: all that decides what is measured, and a hash that tells old results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from hyperslab.data.donor_paths import identity
from hyperslab.layouts import layout_of
from hyperslab.specifications import DatasetSpecification, Specification
from hyperslab.studies.case_kinds import kind_of

if TYPE_CHECKING:
    from hyperslab.studies.study import LoadedStudy


def dataset(study: LoadedStudy) -> DatasetSpecification:
    """Return the shape, type and content of the array;
    of a donor given by a variable also which file that is here.
    """
    dumped: Any = study.dataset.model_dump(exclude_none=True)
    described: DatasetSpecification = dumped
    # Which files there are a layout says, in its `files`.
    dumped.pop("collection", None)
    if study.dataset.rows:
        # Their number is that of the case, in the shape.
        described["rows"] = study.dataset.rows.described()
    if donor := described.get("donor"):
        found = identity(donor)
        described["donor"] = {**donor, **({"file": found} if found else {})}
    return described


def content(study: LoadedStudy, layout: str) -> Specification:
    """Return what decides the bytes of a test file: dataset and layout (of the whole array)."""
    described: Any = {key: value for key, value in study.layouts[layout].items() if key != "label"}
    return {"dataset": dataset(study), "layout": described}


def file_specification(study: LoadedStudy, layout: str, case: str) -> Specification:
    """Return what generate needs: the content, with the shape that the case asks for."""
    spec = content(study, layout)
    spec["dataset"]["shape"] = study.cases[case]["shape"]
    found: Any = layout_of(spec["layout"]).for_case(case)
    return {**spec, "layout": found}


def cell_specification(study: LoadedStudy, layout: str, case: str, round_: str) -> Specification:
    """Return what measure needs; `round_` is "r0" … for main rounds, "c0" … for confirming ones."""
    resolved = study.cases[case]
    kind = kind_of(resolved)
    described: Any = {"name": case, **kind.specified(resolved)}
    spec: Specification = {
        **file_specification(study, layout, case),
        "case": described,
        "repeats": resolved["repeats"],
        "seed": study.study.seed,
        "round": round_,
        "protocol": kind.protocol,
    }
    if kind.draws_boxes:
        spec["study"] = study.name
    if "most_repeats" in resolved:
        spec["most_repeats"] = resolved["most_repeats"]
    if study.study.reader != "any":
        spec["reader"] = study.study.reader
    return spec


def text(spec: Mapping[str, object]) -> str:
    """Return a specification as canonical JSON: equal specifications have equal texts."""
    return json.dumps(spec, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


Standing = Literal["today", "older protocol", "stale"]


def standing(expected: str | None, spec: Specification, study: str) -> Standing:
    """Return what the results of a specification are worth; today's of the same cell has the hash `expected`.

    Those of an older protocol count where the protocol is all that changed, and its times mean the same.
    """
    if agrees(expected, spec):
        return "today"
    return "older protocol" if any(agrees(expected, one) for one in _under_today(spec, study)) else "stale"


def _under_today(spec: Specification, study: str) -> Iterator[Specification]:
    """Yield what a cell of an older protocol may specify today; nothing if such results do not count."""
    kind = kind_of(spec["case"])
    if spec.get("protocol") not in kind.older_protocols:
        return
    today: Specification = {**spec, "protocol": kind.protocol}
    if kind.draws_boxes:
        today["study"] = study
    yield today
    # The study may have said how many repeats there are, and say so no longer.
    if most := {state: count for state, count in kind.most_repeats.items() if state in spec["repeats"]}:
        yield {**today, "most_repeats": most}


def agrees(expected: str | None, spec: Specification) -> bool:
    """Return whether a specification has the hash `expected`; where that knows no donor's file, with any."""
    if expected is None or expected == digest(spec):
        return expected is not None
    described = spec["dataset"]
    if "file" not in described.get("donor", {}):
        return False
    anonymous = {key: value for key, value in described["donor"].items() if key != "file"}
    return expected == digest({**spec, "dataset": {**described, "donor": anonymous}})


def digest(spec: Mapping[str, object]) -> str:
    """Return a hash of a specification, 16 hexadecimal digits."""
    return hashlib.sha256(text(spec).encode()).hexdigest()[:16]
