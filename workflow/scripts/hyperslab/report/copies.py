"""Two copies of an array in one file, each for the reads that it serves best, where that pays."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from keyword import iskeyword
from pathlib import Path
from typing import Any

import pandas as pd

from hyperslab import text as fmt
from hyperslab.results.two_copies import PAYS, gain, geometric_mean


def pays(
    found: pd.DataFrame, choice: Mapping[str, Any], pair: str, pairs: Collection[str], file_bytes: float
) -> tuple[float, str] | None:
    """Return how many times as fast two copies are as the best single layout, and which that is.

    That is the layout with the least geometric mean within the size, which need not be the advised one. None
    where they do not pay, or are too large. `pairs` are the layouts of two copies, of which none is single.
    `found` are the measured seconds (layouts x "case state"). The geometric mean is over the reads, weighted
    by their shares, of times that are at least the floor.
    """
    bound = choice.get("size_bound_bytes") or math.inf
    single = [
        row["layout"]
        for row in choice.get("ranking", [])
        if row["fits"] and row["layout"] not in pairs and row["layout"] in found.index
    ]
    if not single or pair not in found.index or found.loc[[*single, pair]].isna().any(axis=None):
        return None
    if file_bytes > bound:
        return None
    weights = {entry: choice["shares"].get(entry, 0.0) for entry in found.columns}
    floor = choice["imperceptible_ms"] / 1e3
    best = min(single, key=lambda name: geometric_mean(found.loc[name].to_dict(), weights, floor))
    better = gain(found.loc[best].to_dict(), found.loc[pair].to_dict(), weights, floor)
    return (better, str(best)) if better >= PAYS else None


def sentence(
    found: pd.DataFrame, copies: Mapping[str, Any], better: float, single: str, file_bytes: float,
    raw_bytes: float, command: str,
) -> str:  # fmt: skip
    """Return the second answer in words.

    They are `better` times as good as the layout `single`; `command` writes a file with both, "" without one.
    """
    pair = copies["layout"]
    seconds = {entry.rpartition(" ")[0]: found.loc[pair, entry] for entry in found.columns}
    # Of a read that is never asked (0 times) no time counts.
    served = {
        layout: [f"{read} ({fmt.seconds(seconds[read])})" for read in reads if read in seconds]
        for layout, reads in copies["reads"].items()
    }
    parts = [f"{layout} for {fmt.listing(told)}" for layout, told in served.items() if told]
    size = fmt.significant(file_bytes / raw_bytes, 2)
    times = fmt.significant(better, 2)
    return (
        f"Or keep two copies in one file: {fmt.listing(parts)}. Reads are {times} times as fast as in the "
        f"best single layout for all of them, {single} (geometric mean, measured like the others), and the "
        f"file has {size} times the bytes of the raw array."
        + (f" `{command}` writes your file so (COPIES=yes makes it the advised one)." if command else "")
        + " Both copies are read so:"
    )


def lines(prediction: Mapping[str, Any], copies: Mapping[str, Any], file: str) -> list[str]:
    """Return how to read two copies with h5py, a box of a read from each.

    `file` is where both lie of the user's own file, "" where that cannot be rewritten.
    """
    name = f"/{prediction['array'].partition('::')[2].strip('/')}" if file else "data"
    extents = {read["name"]: read["extent"] for read in prediction["reads"]}

    def box(read: str) -> str:
        along = zip(extents[read], prediction["shape"], strict=True)
        return ", ".join(":" if extent == size else f"0:{extent}" for extent, size in along)

    first, second = (reads[0] for reads in copies["reads"].values())
    return [
        "import h5py",
        *(["import hdf5plugin  # its filters"] if copies["layout"] in prediction.get("plugins", {}) else []),
        "",
        f'with h5py.File("{file or "mine.h5"}") as file:'
        + (f"  # {Path(prediction['file']).name} with both" if file else ""),
        f"    {_variable(first)} = file[{json.dumps(name, ensure_ascii=False)}][{box(first)}]",
        f"    {_variable(second)} = file[{json.dumps(f'{name}-second', ensure_ascii=False)}][{box(second)}]",
    ]


def _variable(text: str) -> str:
    """Return a name of Python for what a read fetches."""
    name = "".join(letter if letter.isalnum() else "_" for letter in text)
    return name if name.isidentifier() and not iskeyword(name) else f"read_{name}"
