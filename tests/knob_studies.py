"""The studies of HDF5's knobs, each as it ships but for its sizes, so that a test can measure all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hyperslab.validation.yaml_files import read_yaml

STUDIES = Path(__file__).parents[1] / "config" / "studies"
ONCE = {"cold": 1, "warm": 1, "session": 1, "write": 1}
Content = dict[str, Any]


def shipped(name: str) -> Content:
    """A study as its file has it, on top of the one that it extends."""
    content: Content = read_yaml(STUDIES / f"{name}.yaml")
    if "extends" not in content:
        return content
    base = shipped(content.pop("extends"))
    for key in ("dataset", "settings", "repeats"):
        content[key] = {**base.get(key, {}), **content.get(key, {})}
    base.pop("claims", None)
    return {**base, **content}


def _divided(value: Any, by: int) -> Any:
    return max(1, value // by) if isinstance(value, int) else value


def _layouts(content: Content, chunks: list[int], cache: int) -> dict[str, Any]:
    """The layouts with each extent of a chunk divided, and the bytes of the chunk cache."""
    layouts = {}
    for name, layout in content["layouts"].items():
        changed = dict(layout or {})
        if "chunks" in changed:
            changed["chunks"] = [
                _divided(extent, by) for extent, by in zip(changed["chunks"], chunks, strict=True)
            ]
        if "chunk_cache_bytes" in changed.get("settings", {}):
            settings = changed["settings"]
            size = _divided(settings["chunk_cache_bytes"], cache)
            changed["settings"] = {**settings, "chunk_cache_bytes": size}
        layouts[name] = changed
    return layouts


def small(name: str) -> Content:
    """The study with a small array: one round, one repeat, the same layouts and the same kinds of cases."""
    content = {**shipped(name), "rounds": 1, "repeats": ONCE}
    content.pop("claims", None)
    return SMALLER[name](content)


def _tables(content: Content) -> Content:
    """Everything by 16 along each axis: a chunk of 4 KiB, and caches for one, eight or sixteen of them."""
    shape = [extent // 16 for extent in content["dataset"]["shape"]]
    dataset = {**content["dataset"], "shape": shape}
    return {**content, "dataset": dataset, "layouts": _layouts(content, [16, 16, 16], 16**3)}


def _compact(content: Content) -> Content:
    cases = {
        name: {**case, "shape": {"object": count}}
        for (name, case), count in zip(content["cases"].items(), (2, 8, 32, 64, 96), strict=True)
    }
    return {**content, "dataset": {**content["dataset"], "shape": [96, 1024]}, "cases": cases}


def _objects(content: Content) -> Content:
    return {**content, "dataset": {**content["dataset"], "shape": [150, 1024]}}


def _planes(content: Content) -> Content:
    """Two planes of the 256, and one of them in a selection."""
    cases = {
        name: {**case, "read": {**case["read"], "x": 1}} if "read" in case else case
        for name, case in content["cases"].items()
    }
    return {**content, "dataset": {**content["dataset"], "shape": [2, 256, 1024]}, "cases": cases}


def _allocation(content: Content) -> Content:
    dataset = {**content["dataset"], "shape": [32, 32, 256]}
    return {**content, "dataset": dataset, "layouts": _layouts(content, [1, 1, 4], 1)}


def _preemption(content: Content) -> Content:
    """Rows of eight chunks, and room for ten."""
    settings = {**content["settings"], "chunk_cache_bytes": 10 * 64 * 64 * 4}
    return {**content, "dataset": {**content["dataset"], "shape": [384, 512]}, "settings": settings}


def _selections(content: Content) -> Content:
    dataset = {**content["dataset"], "shape": [12, 12, 4096]}
    return {**content, "dataset": dataset, "cases": {"slices": content["cases"]["slices"]}, "tradeoff": []}


SMALLER = {
    "knobs-cache-shuffle": _tables,
    "knobs-compact": _compact,
    "knobs-objects": _objects,
    "knobs-scatter": _planes,
    "knobs-preemption": _preemption,
    "knobs-allocation": _allocation,
    "knobs-release": _tables,
    "knobs-release-openmsi": _selections,
}
