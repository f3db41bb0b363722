"""What decides the cells and test files of a study, as one hash: results measured so far are of these.

As a program it adds the studies that tests/golden/specifications.json lacks, and changes no other.
"""

from __future__ import annotations

import hashlib
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from hyperslab.planning.planned_study import PlannedStudy

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden" / "specifications.json"
# A donor's file is part of what is specified; none is opened here.
DONOR = "/donor/image.h5::/counts"
COMMAND = "PYTHONPATH=workflow/scripts .venv/bin/python tests/golden_specifications.py"


def studies() -> dict[str, Path]:
    """Name -> file of every study that ships with the project."""
    # Studies of advice are those of whoever asked for it.
    files = sorted((ROOT / "config" / "studies").glob("*.yaml"))
    return {file.stem: file for file in files if not file.stem.startswith("advice-")}


@cache
def planned(name: str) -> PlannedStudy:
    """A study that ships, loaded once for all modules that look at each of them (tests/groups.py)."""
    return PlannedStudy(studies()[name])


def golden() -> dict[str, Any]:
    """Name of a study -> number and hash of its texts, as they were when its results were measured."""
    found: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return found


def fingerprint(study: PlannedStudy) -> dict[str, Any]:
    """Number and SHA-256 of a study's texts: each test file's, each cell's in the first rounds."""
    texts = {}
    for name, case in study.cases.items():
        for layout in case["layouts"]:
            for round_ in ("r0", "c0"):
                texts[f"{layout}/{name}.{round_}"] = study.cell_text(layout, name, round_)
            texts[f"{layout}/{name}.file"] = study.file_text(layout, name)
    lines = "\n".join(f"{key} {text}" for key, text in sorted(texts.items()))
    return {"texts": len(texts), "sha256": hashlib.sha256(lines.encode()).hexdigest()}


def main() -> None:
    """Add what is missing."""
    os.environ["HYPERSLAB_DONOR"] = DONOR
    known = golden()
    added = {name: fingerprint(planned(name)) for name in studies() if name not in known}
    GOLDEN.write_text(json.dumps(dict(sorted((known | added).items())), indent=1) + "\n", encoding="utf-8")
    print("added:", ", ".join(added) or "nothing")


if __name__ == "__main__":
    main()
