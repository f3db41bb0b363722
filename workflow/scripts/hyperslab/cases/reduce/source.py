"""What workers of a reduction read: the data, a copy of all of them, or a copy each of what they need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hyperslab import formats
from hyperslab.data.selections import Box
from hyperslab.layouts import layout_of
from hyperslab.measuring.artifact import Artifact
from hyperslab.specifications import EACH, Specification


@dataclass(frozen=True)
class Fetch:
    """A task: each worker copies what it needs for its part of a box."""

    box: Box


@dataclass(frozen=True)
class Source:
    """The data of a cell as its workers come by them, in whatever process; `path` is where the data lie."""

    cell: Specification
    path: str
    introduction: Callable[[], None]

    @classmethod
    def of(cls, spec: Specification, artifact: Artifact) -> Source:
        """Return the source of a cell whose data are there."""
        return cls(spec, str(artifact.data), artifact.introduction())

    @property
    def artifact(self) -> Artifact:
        """The data themselves."""
        found: Artifact = formats.format_of(self.cell["layout"]).artifact(self.path)
        return found

    @property
    def fetched(self) -> bool:
        """Whether a copy is read."""
        return bool(self.cell["case"].get("fetch"))

    @property
    def fetched_by_each(self) -> bool:
        """Whether each worker copies what it needs."""
        return self.cell["case"].get("fetch") == EACH

    @property
    def specification(self) -> Specification:
        """The cell's, with the layout of what is read."""
        if not self.fetched:
            return self.cell
        described: Any = layout_of(self.cell["layout"]).copied()
        return {**self.cell, "layout": described}

    def place(self, worker: int) -> str:
        """Return the path of what a worker reads."""
        if not self.fetched:
            return self.path
        return str(self.artifact.fetched(worker if self.fetched_by_each else None).data)

    def fetch(self, worker: int, box: Box) -> None:
        """Copy what a worker needs for its part, a box."""
        layout = layout_of(self.cell["layout"])
        names = layout.files_of(self.cell["dataset"]["axes"], box.origin, box.extent)
        self.artifact.fetch(worker, names)
