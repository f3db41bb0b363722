"""What the data say of a claim's explanations, which are claims themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hyperslab import text as fmt
from hyperslab.claims.verdicts import NO_VERDICTS


def conclusions(claims: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return claim -> what the data say of its explanations, for those that were tested anywhere."""
    tested: dict[str, list[Mapping[str, Any]]] = {}
    for claim in claims:
        if claim.get("explains"):
            tested.setdefault(claim["explains"], []).append(claim)
    return {name: _conclusion(explanations) for name, explanations in tested.items()}


def _conclusion(explanations: Sequence[Mapping[str, Any]]) -> str:
    """Return which of the explanations the data support, site by site."""
    words = {claim["id"]: claim["explanation"] for claim in explanations}
    sites: dict[str, dict[str, str]] = {}
    for claim in explanations:
        for verdict in claim["verdicts"]:
            if verdict["verdict"] not in NO_VERDICTS:
                sites.setdefault(" against ".join(verdict["sites"]), {})[claim["id"]] = verdict["verdict"]
    if not sites:
        return f"Explanations to test: {fmt.listing(words.values())}. There are no results yet."
    said = []
    for site, verdicts in sites.items():
        holding = [words[name] for name, verdict in verdicts.items() if verdict == "holds"]
        listed = fmt.listing(f"{words[name]} ({verdict})" for name, verdict in verdicts.items())
        if len(holding) == 1:
            said.append(f"{site}: the data support one explanation, {holding[0]}. Tested: {listed}.")
        else:
            support = "several explanations" if holding else "none of the explanations"
            said.append(f"{site}: the data support {support}. Tested: {listed}.")
    return " ".join(said)
