"""Records: what one cell and round measured, as JSON that appears whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write_record(path: str | Path, record: dict[str, Any]) -> None:
    """Write JSON to `path` in one step: a reader sees the old file or the new one, never half of it."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    partial.write_text(json.dumps(record, separators=(",", ":"), allow_nan=True), encoding="utf-8")
    partial.replace(target)


def read_record(path: str | Path) -> dict[str, Any]:
    """A record as it was written; raises ValueError where the file is not one."""
    record: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    if "repeats" not in record or "specification" not in record:
        raise ValueError(f"{path} is not a record of Hyperslab")
    return record
