"""How who doubts a claim's row measures and judges it alone."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from hyperslab.report.claims_model import Way
from hyperslab.results.tables import REAL_VALUES

# What stands for a donor where no verdict says which it was.
ANY_DONOR = "FILE::DATASET"


def way(study: str, claim: Mapping[str, Any]) -> Way:
    """Return the commands that measure the cells of one claim, where there are no records of them, and judge
    it; none of a claim that no study tests.
    """
    if not study or "untestable" in claim:
        return Way()
    described: Mapping[str, Any] = claim.get("sites_file") or {}
    commands = [*described.get("make", ()), command(study, claim)]
    return Way(commands, described.get("needs") or "", described.get("remove") or "")


def command(study: str, claim: Mapping[str, Any]) -> str:
    """Return what has Snakemake make the page of one claim, with the donor and the sites that it needs."""
    target = shlex.quote(claim_target(study, claim["id"]))
    if described := claim.get("sites_file"):
        target = f"--config {shlex.quote('sites=' + described['file'])} -- {target}"
    return f"{_donor(claim)}.venv/bin/snakemake --profile profiles/local {target}"


def _donor(claim: Mapping[str, Any]) -> str:
    """Return the variables of a donor's path, each set to the donor that the verdicts rest on, if to one."""
    path = claim.get("donor") or ""
    variables = re.findall(r"\$\{?(\w+)", path)
    data = {text for verdict in claim.get("verdicts", ()) for text in verdict.get("data", ())}
    known = [text.removeprefix(REAL_VALUES) for text in data if text.startswith(REAL_VALUES)]
    # What was recorded of a path is the file alone, which stands for the variable if that is all of the path.
    alone = len(known) == 1 and len(variables) == 1 and re.fullmatch(r"\$\{?\w+\}?", path)
    name = shlex.quote(known[0]) if alone else ANY_DONOR
    return "".join(f"{variable}={name} " for variable in variables)


def claim_target(study: str, claim: str) -> str:
    """Return the page of one claim, which is made from the cells that it compares alone."""
    return f"results/{study}/claims/{claim}.html"
