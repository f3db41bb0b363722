"""Cells of formats behind servers: small specifications, and the commands that write and measure them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from samples import file_specification

from hyperslab.specifications import Specification

# The last chunk along every axis reaches over the edge.
SHAPE, CHUNKS = (7, 50, 60), [2, 20, 25]


def behind(format_: str, filters: Any = (), dtype: str = "float32", **more: Any) -> Specification:
    """Dataset and layout of an array behind a server; `more` are settings, or of OpenDAP its workers."""
    spec = file_specification(SHAPE, CHUNKS, filters=filters, dtype=dtype)
    layout: Any = {**spec["layout"], "format": format_}
    if format_ == "hsds":
        layout["settings"] = {"nodes": 1, "chunk_cache_bytes": 2**26, "transfer": "binary", **more}
    else:
        layout |= {"workers": 1, **more}
    return {"dataset": spec["dataset"], "layout": layout}


def commands(
    spec: Specification, artifact: Path, record: Path, python: str | None = None
) -> tuple[list[str], list[str]]:
    """What writes a cell's artifact, and what measures it, both in the environment of the format.

    They are forked, as a run's are, or begin in an interpreter, and go on in that environment.
    """
    # The environments of servers have no pydantic.
    from forked_cells import job

    from hyperslab.studies.specification import text

    words = ["--specification", text(spec), "--artifact", str(artifact)]
    write, measure = (
        [python, "-m", module, *words] if python else job(module, *words)
        for module in ("hyperslab.generate", "hyperslab.measure")
    )
    return write, [*measure, "--record", str(record), "--site", "here"]
