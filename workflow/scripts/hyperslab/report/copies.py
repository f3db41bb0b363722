"""Two copies of an array in one file, each for the reads that it serves best, where that pays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from hyperslab import text as fmt
from hyperslab.results.two_copies import PAYS, gain


def pays(found: pd.DataFrame, choice: Mapping[str, Any], pair: str, file_bytes: float) -> float | None:
    """Return how many times as fast two copies are as the pick, None where they do not pay, or are too large.

    `found` are the measured seconds (layouts x "case state"). It is the geometric mean over the reads,
    weighted by their shares, of times that are at least the floor.
    """
    pick, bound = choice.get("pick"), choice.get("size_bound_bytes") or math.inf
    if not {pick, pair} <= set(found.index) or found.loc[[pick, pair]].isna().any(axis=None):
        return None
    if file_bytes > bound:
        return None
    weights = {entry: choice["shares"].get(entry, 0.0) for entry in found.columns}
    better = gain(
        found.loc[pick].to_dict(), found.loc[pair].to_dict(), weights, choice["imperceptible_ms"] / 1e3
    )
    return better if better >= PAYS else None


def sentence(
    found: pd.DataFrame, copies: Mapping[str, Any], better: float, file_bytes: float, raw_bytes: float,
    study: str | None,
) -> str:  # fmt: skip
    """Return the second answer in words; where there is a file, its `study` makes the one with both."""
    pair = copies["layout"]
    seconds = {entry.rpartition(" ")[0]: found.loc[pair, entry] for entry in found.columns}
    parts = [
        f"{layout} for {fmt.listing([f'{read} ({fmt.seconds(seconds[read])})' for read in reads])}"
        for layout, reads in copies["reads"].items()
    ]
    size = fmt.significant(file_bytes / raw_bytes, 2)
    times = fmt.significant(better, 2)
    return (
        f"Or keep two copies in one file: {fmt.listing(parts)}. Reads are {times} times as "
        f"fast as in the advised layout (geometric mean, measured like the others), and the file has {size} "
        "times the bytes of the raw array."
        + (f" results/{study}/layout/{pair}.h5 is your file with both." if study else "")
    )


def lines(copies: Mapping[str, Any], dataset: str) -> list[str]:
    """Return how to read two copies with h5py, in three lines."""
    name = dataset.strip("/").rsplit("/", 1)[-1] or "data"
    first, second = (reads[0] for reads in copies["reads"].values())
    return [
        'with h5py.File("mine.h5") as file:',
        f'    {_variable(first)} = file["{name}"][...]  # your box of {first}',
        f'    {_variable(second)} = file["{name}-second"][...]  # your box of {second}',
    ]


def _variable(text: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in text)
