"""What every kind of case answers on the study's side, so that nobody else asks for a kind by its name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from hyperslab.layouts.layout import Layout
    from hyperslab.studies.dataset_schema import Dataset
    from hyperslab.studies.schema import Case

# Extent of every axis, by its name.
Shape = Mapping[str, int]
# How often a case is repeated in each state, where its study says nothing.
REPEATS: dict[str, int] = {"cold": 15, "warm": 25, "session": 50, "write": 10}
# A case as a study has it when every default is filled in; "kind" is the name of its kind.
Resolved = Mapping[str, Any]


class CaseMistake(Exception):
    """What is wrong with a case: the path inside it, and one line."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


class Kind(ABC):
    """A kind of case. Its name is that of the field of schema.Case that asks for it; records hold it."""

    name: ClassVar[str]
    # What a study gives under that name, in words.
    given: ClassVar[str]
    # Further fields of schema.Case that are for this kind (and others that name them) alone.
    options: ClassVar[tuple[str, ...]] = ()
    # Keys of a resolved case that decide what is measured, beside its kind and states.
    keys: ClassVar[tuple[str, ...]] = ()
    # Raised whenever a change alters what the stopwatch of this kind covers, what is done between two of its
    # repeats, or what is asked; older results then show as stale, but for those of `older_protocols`.
    protocol: ClassVar[int]
    # Older protocol -> what was otherwise in it: its times mean the same, so its results count, marked.
    older_protocols: ClassVar[Mapping[int, str]] = {}
    # Its cells draw boxes at random, which depend on the name of the study, too.
    draws_boxes: ClassVar[bool] = False
    # State -> repeats that a cell goes on to where its first ones are short, unless the study says how many.
    most_repeats: ClassVar[Mapping[str, int]] = {}

    # The data model (data.models) of the datasets that it is of.
    data_model: ClassVar[str] = "array"
    # Data in an object store can be read or written so.
    of_objects: ClassVar[bool] = False
    # What one repeat times, as figures call it.
    timed: ClassVar[str] = "selection"
    # Selections are read: layouts are recommended by such cases, and confirmed in fresh rounds of them.
    reads_selections: ClassVar[bool] = False
    # The whole array is written by a strategy, durably, in an order of the case's own.
    writes_array: ClassVar[bool] = False
    # Each of its cases makes its own test file and waits for none.
    makes_its_file: ClassVar[bool] = False
    # A file holds many arrays.
    many_arrays: ClassVar[bool] = False
    # Files hold the array in a layout, so that their sizes are those of layouts.
    sized: ClassVar[bool] = True
    # What a layout with a lossy filter changed is measured.
    measures_error: ClassVar[bool] = False
    # Each read brings in the whole file.
    reads_all: ClassVar[bool] = False
    # Every file of a layout is opened, whatever is read of it.
    opens_all: ClassVar[bool] = False
    # Each element that is read is computed with.
    computes: ClassVar[bool] = False
    # The figure that shows a family of cases, one a number of workers; "" where cases have no family.
    family_figure: ClassVar[str] = ""
    # Figures that a study with such cases has once.
    study_figures: ClassVar[tuple[str, ...]] = ()

    def mistake(self, case: Case) -> str | None:
        """Return what is wrong with a case of this kind, whatever the dataset, or None."""
        return None

    def variants(self, name: str, case: Case, dataset: Dataset) -> Iterator[tuple[str, Case]]:
        """Yield the cases that one of a study stands for, by name; most stand for themselves.

        Raises ValueError for what does not fit the dataset.
        """
        yield name, case

    @abstractmethod
    def resolve(self, case: Case, shape: Shape) -> dict[str, Any]:
        """Return `keys` and `states` of a case on an array of this shape; raises CaseMistake."""

    def check(self, case: Case, resolved: Resolved, dataset: Dataset, layout: Layout) -> None:
        """Raise CaseMistake where a resolved case cannot be had of a layout."""
        if not layout.abilities.pages and not self.asks_objects(resolved):
            raise CaseMistake("layouts", f"{layout.title} is not asked for such cases")
        if not layout.abilities.pages and "warm" in resolved["states"]:
            message = f"{layout.title} is never warm: this node keeps no pages of it; take other states"
            raise CaseMistake("states", message)
        if not self.measures_error and layout.lossy():
            raise CaseMistake("layouts", "only read and write cases can measure the error of a lossy filter")
        if layout.named_cases() and not self.reads_selections:
            raise CaseMistake("layouts", "of two copies in a file only reads can be timed")
        if reason := layout.refusal(self.array_shape(resolved), dataset.itemsize):
            raise CaseMistake("layouts", reason)

    def asks_objects(self, resolved: Resolved) -> bool:
        """Return whether a resolved case can be had of data that are objects in a store."""
        return self.of_objects

    def array_shape(self, resolved: Resolved) -> list[int]:
        """Return the extents of one array in the file of a case."""
        return list(resolved["shape"])

    def extent(self, resolved: Resolved, values: list[int]) -> list[int]:
        """Return the extents of a selection among all values; `values` are those of all of them."""
        return list(resolved["extent"])

    def arrays(self, resolved: Resolved) -> int:
        """Return how many arrays of their own a case makes of the study's array; 0: it is stored as one."""
        return 0

    def beyond_bytes(self, resolved: Resolved, dataset: Dataset, layout: Layout) -> int:
        """Return by how much a case can make a file larger than its layout's bound; most do not."""
        return 0

    def specified(self, resolved: Resolved) -> dict[str, Any]:
        """Return what of a resolved case belongs to the specifications of its cells."""
        return {key: resolved[key] for key in ("kind", "states", *self.keys) if key in resolved}

    def selections(self, resolved: Resolved) -> int:
        """Return how many selections one repeat of a case makes."""
        return 1

    def figures(self, name: str, case: Resolved, gridded: bool) -> list[str]:
        """Return the names of the figures of one case; `gridded`: a grid of layouts is among its own."""
        return []

    def apart(self, case: Resolved, title: str) -> tuple[str, str]:
        """Return a title that a case shares with others of its family, and what sets it apart from them.

        What sets it apart is "" where cases have no family.
        """
        return title, ""
