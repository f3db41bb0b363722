"""What the page of all claims is made of: studies that have results, those that wait for them, and the rest.

Rules ask this, so it needs neither pandas nor templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from hyperslab.claims.bounds import without_results
from hyperslab.studies import figures
from hyperslab.studies.claims.schema import NO_STUDY, Claim
from hyperslab.validation.errors import ConfigurationError, validate
from hyperslab.validation.models import Name, Strict
from hyperslab.validation.yaml_files import read_yaml

if TYPE_CHECKING:
    from hyperslab.planning.inventory import Inventory

TARGET = "results/claims.html"
# The same as Markdown, written by the same rule.
MARKDOWN = "results/claims.md"
UNTESTED = Path("config") / "claims" / "untested.yaml"


class Untested(Strict):
    """The file of claims that no study tests, each with the reason."""

    claims: dict[Name, Claim] = Field(description="the claims, by number, each with `untestable`")


def untested(file: Path) -> list[dict[str, Any]]:
    """Return the claims of a file that no study tests;
    none where there is no file. Raises ConfigurationError.
    """
    if not file.exists():
        return []
    claims = validate(Untested, read_yaml(file), file).claims
    for name, claim in claims.items():
        if not claim.untestable:
            raise ConfigurationError(
                file, f"claims.{name}", "what has comparisons belongs into a study; here stands `untestable`"
            )
    return [told({"id": name, **claim.model_dump(exclude_none=True)}) for name, claim in claims.items()]


def told(claim: Mapping[str, Any], reason: str = "") -> dict[str, Any]:
    """Return a claim without results, as claims.json has it."""
    kept = {key: value for key, value in claim.items() if key not in ("comparisons", "at", "across")}
    why = claim.get("untestable") or reason
    kind = "cannot be tested" if "untestable" in claim else "not measured"
    verdict = {"sites": [], "verdict": kind, "reason": why, "comparisons": without_results(claim)}
    return {**kept, "verdicts": [verdict]}


def broken(inventory: Inventory) -> dict[str, str]:
    """Return the studies that cannot be read, each with the line that says why; they block no other."""
    found = {}
    for file in sorted((inventory.directory / "config" / "studies").glob("*.yaml")):
        try:
            inventory.study(file.stem)
        except ConfigurationError as error:
            found[file.stem] = str(error)
    return found


def _studies(inventory: Inventory) -> list[str]:
    names = {path.stem for path in (inventory.directory / "config" / "studies").glob("*.yaml")}
    return sorted(names - broken(inventory).keys())


def _with_results(inventory: Inventory, name: str) -> list[str]:
    """Return the sites of a study that have records, or will have them when this run is done.

    None where its sites are not described here.
    """
    study = inventory.study(name)
    try:
        if name in (inventory.measured or ()):
            return inventory.with_results(study)
        return [site for site in inventory.sites_of(study) if inventory.present(study, site)]
    except ConfigurationError:
        return []


def shown(inventory: Inventory) -> list[str]:
    """Return the studies that have both claims and results."""
    return [
        name
        for name in _studies(inventory)
        if inventory.study(name).claims and _with_results(inventory, name)
    ]


def inputs(inventory: Inventory) -> dict[str, Any]:
    """Return the verdicts of each study that has results, and the figures that show them."""
    found: dict[str, Any] = {"verdicts": [], "figures": []}
    for name in shown(inventory):
        study, sites = inventory.study(name), _with_results(inventory, name)
        found["verdicts"].append(f"results/{name}/claims.json")
        wanted = {claim["figure"] for claim in study.claims if claim.get("figure")}
        found["figures"] += [
            f"results/{name}/figures/{site}/{figure}.svg"
            for site in sites
            for figure in figures.names(study.figure_meta, site)
            if figure in wanted
        ]
    return found


def reports(inventory: Inventory) -> list[dict[str, str]]:
    """Return name and title of each study that has results, and so a report on a website."""
    names = [name for name in _studies(inventory) if _with_results(inventory, name)]
    return [{"study": name, "title": inventory.study(name).study.title} for name in names]


def waiting(inventory: Inventory) -> list[dict[str, Any]]:
    """Return the claims without results, as claims.json would have them: of studies not measured,
    and of no study.
    """
    found: list[dict[str, Any]] = [{"study": name, "claims": []} for name in broken(inventory)]
    for name in _studies(inventory):
        claims = inventory.study(name).claims
        if claims and not _with_results(inventory, name):
            reason = f"the study {name} has no results"
            found.append({"study": name, "claims": [told(claim, reason) for claim in claims]})
    listed = untested(inventory.directory / UNTESTED)
    return [*found, {"study": NO_STUDY, "claims": listed}] if listed else found
