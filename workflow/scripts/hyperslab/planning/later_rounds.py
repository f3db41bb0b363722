"""Added and confirming rounds of a run: which cells of them it may measure, and whether it does for sure."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from hyperslab.planning.confirmation import confirming_list
from hyperslab.planning.inventory import Inventory
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.planning.reruns import Reruns, out_of_step
from hyperslab.planning.stages import listing, made_of
from hyperslab.records import LETTER, Cell, record_of


class LaterRounds:
    """What comes after a look at the rounds before, and is measured by runs inside this one."""

    def __init__(self, inventory: Inventory, reruns: Reruns) -> None:
        self._inventory, self._reruns = inventory, reruns

    def may_add(self, study: PlannedStudy, site: str, made: Collection[str], claim: str = "") -> list[Cell]:
        """Return the cells of a site that a run which makes the files `made` may add beside those due, or add
        for one claim; none where no more are.
        """
        due: set[Cell] = set() if claim else set(self._reruns.due(study, site))
        listed = listing(study.name, claim).exists() and not self._reruns.stages_outdated(study, claim)
        # First rounds that are measured again may leave open what was decided.
        anew = bool(due) or not set(made).isdisjoint(self._inventory.records_of(study, site))
        if not study.study.adaptive or (listed and not anew):
            return []
        return [
            cell
            for number in range(study.study.first_rounds, study.study.most_rounds)
            for layout, case in sorted(study.can_be_added(site, claim))
            if (cell := (layout, case, f"r{number}")) not in due and not _is_there(study, site, cell)
        ]

    def adds(self, study: PlannedStudy, site: str, made: Collection[str]) -> bool | None:
        """Tell whether a run that makes the files `made` measures added rounds at a site.

        None where it may: what stays open is known only after a look at the rounds before.
        """
        # Rounds that are measured before may leave open what was decided.
        before = tuple(f"results/{study.name}/{kind}/" for kind in ("cells", "batches"))
        anew = any(path.startswith(before) for path in made)
        found: bool | None = False
        for claim in ("", *(claim["id"] for claim in study.claims)):
            file = listing(study.name, claim)
            if str(file) not in made:
                continue
            cells = self._inventory.added_cells(study, site, claim)
            records = [record_of(study.name, site, cell) for cell in cells]
            asked = self._reruns.asked(study, site)
            lacks = any(record in asked or not Path(record).exists() for record in records)
            if lacks and not anew and made_of(file)[0] == study.deciding_of(claim):
                return True
            if lacks or self.may_add(study, site, made, claim):
                found = None
        return found

    def may_confirm(self, study: PlannedStudy, site: str) -> dict[str, list[Cell]]:
        """Return the cells of a site that confirming rounds lack of today's, by layout, whichever are
        finalists; without those that are asked for again.
        """
        asked, reads = self._reruns.asked(study, site), set(study.read_cases())
        found: dict[str, list[Cell]] = {}
        for layout, case in sorted(study.pairs(site)):
            for number in range(study.study.recommendation.confirm_rounds if case in reads else 0):
                cell = (layout, case, f"{LETTER['confirm']}{number}")
                if record_of(study.name, site, cell) not in asked and not _is_there(study, site, cell):
                    found.setdefault(layout, []).append(cell)
        return found

    def confirms(self, study: PlannedStudy, site: str, made: Collection[str]) -> bool | None:
        """Tell whether a run that makes the files `made` measures confirming cells of a site.

        None where it may: before there is a recommendation no finalist is known, and there may be none.
        """
        if str(confirming_list(study.name)) not in made:
            return False
        if f"results/{study.name}/recommendation.json" in made:
            reads = set(study.read_cases())
            layouts = {layout for layout, case in study.pairs(site) if case in reads}
            # Where some layout has all its records, they may be all that is wanted.
            return None if layouts and layouts <= self.may_confirm(study, site).keys() else False
        records = self._inventory.records_of(study, site, "confirm")
        return bool(self._reruns.asked(study, site).intersection(records) or out_of_step(study, records))


def _is_there(study: PlannedStudy, site: str, cell: Cell) -> bool:
    """Tell whether a record is there that is today's of its cell."""
    record = Path(record_of(study.name, site, cell))
    return record.exists() and study.is_todays(record, cell)
