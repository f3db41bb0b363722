"""The specification of a cell: all that decides what is measured, and a hash that tells old results."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from hyperslab import PROTOCOL
from hyperslab.case_kinds import SPECIFIED
from hyperslab.study import LoadedStudy


def content(study: LoadedStudy, layout: str) -> dict[str, Any]:
    """What decides the bytes of a test file: dataset and layout (of the whole array)."""
    dataset = study.dataset.model_dump(exclude_none=True)
    return {"dataset": dataset, "layout": {k: v for k, v in study.layouts[layout].items() if k != "label"}}


def file_specification(study: LoadedStudy, layout: str, case: str) -> dict[str, Any]:
    """What generate needs: the content, with the shape that the case asks for."""
    spec = content(study, layout)
    spec["dataset"]["shape"] = study.cases[case]["shape"]
    return spec


def cell_specification(study: LoadedStudy, layout: str, case: str, round_: str) -> dict[str, Any]:
    """What measure needs; `round_` is "r0" … for main rounds, "c0" … for confirming ones."""
    resolved = study.cases[case]
    return {
        **file_specification(study, layout, case),
        "case": {"name": case, **{key: resolved[key] for key in SPECIFIED if key in resolved}},
        "repeats": resolved["repeats"],
        "seed": study.study.seed,
        "round": round_,
        "protocol": PROTOCOL,
        **({"reader": study.study.reader} if study.study.reader != "any" else {}),
    }


def text(spec: dict[str, Any]) -> str:
    """A specification as canonical JSON: equal specifications have equal texts."""
    return json.dumps(spec, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(spec: dict[str, Any]) -> str:
    """A hash of a specification, 16 hexadecimal digits."""
    return hashlib.sha256(text(spec).encode()).hexdigest()[:16]
