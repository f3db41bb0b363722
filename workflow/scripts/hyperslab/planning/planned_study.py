"""A study with what rules ask of it: cells, specifications as text, what tables and pages need."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from hyperslab.data.donor_paths import located
from hyperslab.layouts import layout_of
from hyperslab.measuring.artifact import shared
from hyperslab.records import LETTER, read_record
from hyperslab.studies import figures, specification
from hyperslab.studies.case_kinds import kind_of, measured_at
from hyperslab.studies.claims.compared import candidates
from hyperslab.studies.claims.resolve import resolve_claims
from hyperslab.studies.extending import naming_source
from hyperslab.studies.study import LoadedStudy
from hyperslab.studies.summary import study_meta
from hyperslab.validation.errors import ConfigurationError
from hyperslab.validation.nearest import choices

# Why a layout is not recommended to someone who did not ask for other values, however fast it is.
LOSSY = "its filter is lossy (recommendation.lossy: true lets it in)"

# Of a directory, with what is added to it.
LONGEST_NAME = 200
# Of a site: pick, runner-up, contiguous and automatic layout, and one for another mix.
MOST_FINALISTS = 5


class PlannedStudy(LoadedStudy):
    """A study with what rules ask of it; texts are made once, since rules ask for each cell several times."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        with naming_source(file):
            self.claims = resolve_claims(self)
        self._texts: dict[tuple[str, ...], str] = {}

    @cached_property
    def figure_meta(self) -> dict[str, Any]:
        """Titles, order and grids, for figures."""
        return figures.describe(self)

    @cached_property
    def report_meta(self) -> dict[str, Any]:
        """Titles, order and shapes, for the report."""
        return study_meta(self)

    def donor_files(self) -> list[str]:
        """Return the donor's file (and its companion, for imzML)."""
        if not self.dataset.donor:
            raise ValueError(f"study {self.name} has no donor")
        path, _ = located(self.dataset.donor.model_dump())
        companions = [path.with_suffix(".ibd")] if path.suffix.lower() == ".imzml" else []
        return [str(path), *map(str, companions)]

    def dataset_json(self) -> str:
        """Return the dataset as JSON, for the donor's preparation."""
        return specification.text(specification.dataset(self))

    @cached_property
    def donor_digest(self) -> str:
        """Tells what is prepared of one donor from what is of another."""
        return hashlib.sha256(self.dataset_json().encode()).hexdigest()[:8]

    @property
    def donor_copy(self) -> str:
        """Where that of its donor lies which it uses."""
        return f"results/{self.name}/donor.{self.donor_digest}.npy"

    def cells(self, site: str, round_: str) -> list[tuple[str, str, str]]:
        """Return (layout, case, round) of every cell of a site in one round."""
        return [
            (layout, name, round_)
            for name, case in self.cases.items()
            if measured_at(case, site)
            for layout in case["layouts"]
        ]

    def pairs(self, site: str) -> set[tuple[str, str]]:
        """Return (layout, case) of every cell of a site, which are the same in all rounds."""
        return {(layout, case) for layout, case, _ in self.cells(site, "r0")}

    def cell_text(self, layout: str, case: str, round_: str) -> str:
        """Return the specification of a cell as canonical JSON."""
        key = (layout, case, round_)
        if key not in self._texts:
            self._texts[key] = specification.text(
                specification.cell_specification(self, layout, case, round_)
            )
        return self._texts[key]

    def file_text(self, layout: str, case: str) -> str:
        """Return the specification of a test file as canonical JSON."""
        key = (layout, case)
        if key not in self._texts:
            self._texts[key] = specification.text(specification.file_specification(self, layout, case))
        return self._texts[key]

    def sharing(self, layout: str, case: str, site: str) -> list[str]:
        """Return the cases that read one test file with a case of a layout at a site, itself among them."""
        made = kind_of(self.cases[case]).makes_its_file
        # What lies in a store, and not in files, is put there by each cell.
        if not self.study.shared_files or made or not layout_of(self.layouts[layout]).abilities.pages:
            return [case]
        found = [
            name
            for name, other in self.cases.items()
            if layout in other["layouts"]
            and measured_at(other, site)
            and not kind_of(other).makes_its_file
            and self.file_text(layout, name) == self.file_text(layout, case)
        ]
        # The artifact is called after all of them, and file systems end names at 255 bytes.
        return found if len(shared(found)) <= LONGEST_NAME else [case]

    def hashes(self, phase: str) -> dict[str, str]:
        """Return layout/case.round -> hash of today's specification, for every cell of a phase.

        Rounds that may be added are main ones.
        """
        confirming = phase == "confirm"
        letter = LETTER["confirm" if confirming else "main"]
        rounds = self.study.recommendation.confirm_rounds if confirming else self.study.most_rounds
        found = {}
        for name, case in self.cases.items():
            for layout in case["layouts"]:
                # Only the name of the round differs between rounds.
                spec = specification.cell_specification(self, layout, name, f"{letter}0")
                for number in range(rounds):
                    cell = f"{layout}/{name}.{letter}{number}"
                    found[cell] = specification.digest({**spec, "round": f"{letter}{number}"})
        return found

    def is_todays(self, record: Path, cell: tuple[str, str, str]) -> bool:
        """Tell whether a record is there and of what its cell (layout, case, round) is today."""
        return self.standing(record, cell) == "today"

    def counts(self, record: Path, cell: tuple[str, str, str]) -> bool:
        """Tell whether a record is there and its results count today, if of an older protocol."""
        return self.standing(record, cell) != "stale"

    def standing(self, record: Path, cell: tuple[str, str, str]) -> specification.Standing:
        """Return what a record's results are today; "stale" also where there is none that can be read."""
        with suppress(ValueError, KeyError, TypeError, OSError):
            expected = specification.digest(specification.cell_specification(self, *cell))
            return specification.standing(expected, read_record(record)["specification"], self.name)
        return "stale"

    def score_settings(self) -> dict[str, Any] | None:
        """Return the criteria, published layouts and target of the score."""
        score = self.study.score
        return score.model_dump(exclude_none=True) if score else None

    def recommendation_settings(self) -> dict[str, Any]:
        """Return the weights, states and size bound of the recommendation; layouts it must not choose,
        and why.
        """
        chosen = self.study.recommendation
        kept = chosen.model_dump(exclude={"confirm_rounds", "lossy", "mixed", "copies", "quoted", "excluded"})
        excluded: dict[str, str] = dict(chosen.excluded)
        for name, layout in self.layouts.items():
            found = layout_of(layout)
            if found.lossy() and not chosen.lossy:
                excluded[name] = LOSSY
            elif why := found.unfit(chosen.copies):
                excluded[name] = why
        # Only where they say something, or every study's recommendation would be made again.
        if chosen.mixed:
            kept["mixed"] = True
        if chosen.quoted:
            kept["quoted"] = chosen.quoted
        return {**kept, "excluded": excluded} if excluded else kept

    @property
    def rounds(self) -> tuple[int, int]:
        """The first and the most rounds."""
        return self.study.first_rounds, self.study.most_rounds

    def recommendation_asked(self) -> dict[str, Any]:
        """Return all that a recommendation depends on beside results."""
        arrays = {name: self.dataset.bytes_of(self.cases[name]["shape"]) for name in self.counting_cases()}
        asked: dict[str, Any] = {
            "recommendation": self.recommendation_settings(),
            "contiguous": self.reference("contiguous"),
            "automatic": self.reference("auto"),
            # Of the largest array that counts, as sizes of files are: a case may be of a part.
            "raw_bytes": max(arrays.values(), default=self.dataset.nbytes),
            "rounds": self.rounds,
        }
        # Only where it says something, or every study's recommendation would be made again.
        if len(set(arrays.values())) > 1 and len({tuple(self.cases[name]["sites"]) for name in arrays}) > 1:
            asked["raw_bytes_of"] = arrays
        return asked

    @property
    def confirms(self) -> bool:
        """Whether finalists are measured again, so that it matters which layouts these are."""
        return bool(self.study.recommendation.confirm_rounds and self.read_cases())

    @property
    def most_finalists(self) -> int:
        """How many layouts are measured again at one site at most."""
        return min(len(self.layouts), MOST_FINALISTS + len(self.study.recommendation.quoted))

    @cached_property
    def deciding(self) -> str:
        """Tells of what, beside results, it depends how many rounds are added: of the same or of another."""
        return self._deciding(self.claims, self.recommendation_asked() if self.confirms else None)

    def deciding_of(self, claim: str) -> str:
        """Return the same of the rounds that are added for one claim alone, if there is one."""
        if not claim:
            return self.deciding
        return self._deciding([one for one in self.claims if one["id"] == claim], None)

    def _deciding(self, claims: list[dict[str, Any]], recommendation: dict[str, Any] | None) -> str:
        parts = ("id", "at", "across", "could", "comparisons")
        asked: dict[str, Any] = {
            "rounds": self.rounds,
            "claims": [{key: claim[key] for key in parts if key in claim} for claim in claims],
            "recommendation": recommendation,
        }
        return hashlib.sha256(specification.text(asked).encode()).hexdigest()[:16]

    def can_be_added(self, site: str, claim: str = "") -> set[tuple[str, str]]:
        """Return the (layout, case) cells of a site that added rounds may have, or those added for one claim:
        of what can be open, and of cases that read the same test files.
        """
        if not self.study.adaptive:
            return set()
        there, asked = self.pairs(site), self.counting_cases()
        claims = [one for one in self.claims if claim in ("", one["id"])]
        picked = {cell for cell in there if self.confirms and not claim and cell[1] in asked}
        open_ = there & candidates(claims, picked)
        return {(layout, other) for layout, case in open_ for other in self.sharing(layout, case, site)}

    def read_cases(self) -> list[str]:
        """Return the names of the cases that are measured again in confirming rounds.

        These are all that read selections, and what else the recommendation weighs.
        """
        mix = self.study.recommendation.mix
        return [name for name, case in self.cases.items() if kind_of(case).reads_selections or mix.get(name)]

    def counting_cases(self) -> list[str]:
        """Return the names of the cases that the recommendation weighs: those of the mix, else all reads."""
        mix = self.study.recommendation.mix
        return [name for name in self.read_cases() if not mix or mix.get(name)]

    def reference(self, which: str) -> str | None:
        """Return the layout that is "contiguous" (neither chunks nor compact) or "auto" (automatic chunks),
        if any; a file with two copies is neither.

        One without filters comes first; where automatic chunks stand with filters only, the first of those.
        """
        chunks = None if which == "contiguous" else which
        found = [
            name
            for name, layout in self.given.items()
            # Rows are kept in ways that are no array's.
            if getattr(layout, "chunks", "no array") == chunks
            and not getattr(layout, "storage", None)
            and not getattr(layout, "second", None)
            and layout.files is None
        ]
        return min(found, key=lambda name: bool(layout_of(self.layouts[name]).filters_text()), default=None)


def named_study(name: str, directory: Path = Path()) -> PlannedStudy:
    """Return the study of this name; raises ConfigurationError, which says which ones there are."""
    file = directory / "config" / "studies" / f"{name}.yaml"
    if not file.exists():
        known = sorted(path.stem for path in file.parent.glob("*.yaml"))
        raise ConfigurationError(file, "", f"there is no such study; there are {choices(name, known)}")
    return PlannedStudy(file)
