"""A study to change and spoil, and what Hyperslab says of it."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.validation.errors import ConfigurationError

Content = dict[str, Any]

BASE = """
title: a study
dataset: {axes: [x, y, z], shape: [20, 30, 400], dtype: uint16}
settings: {chunk_cache_bytes: 1048576}
layouts:
  contiguous:
  auto: {chunks: auto}
  4x4x64: {chunks: [4, 4, 64]}
grids:
  - {name: "{m}by{n}", over: {m: [1, 2], n: [10, 100]}, chunks: [m, m, n]}
cases:
  slices: {read: {z: 25}, states: [cold, warm, session]}
  write: {write: chunk}
rounds: 3
repeats: {cold: 7}
recommendation: {mix: {slices: 2}}
score:
  criteria:
    - {case: slices, below: 0.1}
tradeoff: []
"""
# Cases of several workers.
REDUCE = {"reduce": {"z": 25}, "processes": [1, 2, 4]}
PARALLEL: dict[str, Any] = {"parallel": {"datasets": 3, "bytes": 64, "transfer": 32}, "ranks": [1, 2]}


def load(directory: Path, content: str | bytes | Content) -> PlannedStudy:
    """The study of a file with this content."""
    file = directory / "mine.yaml"
    text = yaml.safe_dump(content) if isinstance(content, dict) else content
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return PlannedStudy(file)


def mistake(directory: Path, content: str | bytes | Content) -> str:
    """The one line about a faulty study, without the name of the file that it begins with."""
    with pytest.raises(ConfigurationError) as error:
        load(directory, content)
    text = str(error.value)
    assert text.splitlines() == [text]
    start = f"{directory / 'mine.yaml'}: "
    assert text.startswith(start)
    return text.removeprefix(start)


def changed(path: str, value: Any) -> Content:
    """The base study with the value at a dotted path replaced, or with that key taken away (value ...)."""
    content = copy.deepcopy(_base())
    *parents, last = path.split(".")
    inner: Any = content
    for part in parents:
        inner = inner[int(part) if isinstance(inner, list) else part]
    if value is ...:
        del inner[last]
    else:
        inner[int(last) if isinstance(inner, list) else last] = value
    return content


@cache
def _base() -> Content:
    """The base study, taken from its text once."""
    content: Content = yaml.safe_load(BASE)
    return content


def with_case(**case: Any) -> Content:
    """The base study with a case more."""
    content = changed("title", "a study")
    content["cases"]["team"] = case
    return content


def parallel_study(**parallel: Any) -> Content:
    """A study of 5 datasets of 64 elements of 2 bytes, and one parallel case."""
    return {
        "title": "a study",
        "dataset": {"axes": ["dataset", "element"], "shape": [5, 64], "dtype": "uint16"},
        "layouts": {"contiguous": None},
        "cases": {"team": {**PARALLEL, "parallel": {**PARALLEL["parallel"], **parallel}}},
    }
