"""docs/index.md and its figures, from docs/findings.yaml and the packs that it names. It measures nothing.

findings.py                 docs/index.md and docs/figures/
findings.py --packs DIR     of the packs in another folder
"""

import argparse
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from pydantic import Field

from hyperslab import text as fmt
from hyperslab.figures.canvas import save
from hyperslab.figures.scales import logarithmic
from hyperslab.figures.style import STYLE, colours, settings
from hyperslab.results.comparisons import of_rounds
from hyperslab.results.packs import SUFFIX, PackError, measurements
from hyperslab.results.statistics import log_medians, summarise
from hyperslab.validation.errors import ConfigurationError, validate
from hyperslab.validation.models import Name, Strict, Text
from hyperslab.validation.yaml_files import read_yaml

PROJECT = Path(__file__).resolve().parents[2]
DOCS = PROJECT / "docs"
SOURCE = DOCS / "findings.yaml"
MARKERS = "osD"
# What stands in the opening for the page of verdicts that is dated last.
NEWEST = "claims-NEWEST.md"
PHASES = {"confirm": "confirming round", "main": "round"}
# Layouts and cases.
Cells = frozenset[tuple[str, str]]


class Number(Strict):
    """How many times as long one thing takes as another; each is LAYOUT/CASE/STATE."""

    over: Text = Field(description="what takes longer")
    under: Text = Field(description="what it is divided by")


class Finding(Strict):
    """One sentence with its evidence."""

    name: Name = Field(description="what its figure is called")
    heading: Text = Field(description="the finding in a few words")
    study: Name = Field(description="the study whose pack holds the measurements")
    site: Name | None = Field(default=None, description="the site, where its pack holds several")
    claim: Name | None = Field(default=None, description="the claim of a document that it bears on")
    sentence: Text = Field(description="what was found, with {name} for each of the numbers")
    numbers: dict[Name, Number] = Field(description="what the sentence quotes")
    series: dict[Text, Text] = Field(description="LAYOUT/CASE/STATE of each colour, with * for a row's name")
    rows: dict[Text, Text] = Field(description="what stands for the * of a series, by its words")


class Findings(Strict):
    """The file of findings."""

    opening: Text = Field(description="what the page begins with")
    findings: list[Finding] = Field(description="in the order of the page")


@cache
def summary_of(pack: Path, cells: Cells | None) -> pd.DataFrame:
    """Return one row a cell, state and round of what a pack holds of these, or all; raises PackError."""
    return summarise(measurements(pack, cells))


def logs_of(pack: Path, phase: str, site: str | None = None, cells: Cells | None = None) -> pd.DataFrame:
    """Return the log of each round's typical time in seconds, LAYOUT/CASE/STATE x rounds, at one site.

    Raises ConfigurationError where a pack holds several and none is named: they are no rounds of one thing.
    """
    summary = summary_of(pack, cells)
    if site is not None:
        summary = summary[summary["site"] == site]
    if len(sites := summary["site"].unique()) > 1:
        said = f"{pack} holds several sites ({fmt.listing(sites)}); name one of them as site"
        raise ConfigurationError(SOURCE, "", said)
    rows = summary[summary["phase"] == phase]
    if rows.empty:
        return pd.DataFrame()
    layouts, cases, states = (rows[name].astype(str) for name in ("layout", "case", "state"))
    places = layouts + "/" + cases + "/" + states
    return log_medians(rows.assign(layout=places))


def quoted(finding: Finding) -> list[str]:
    """Return LAYOUT/CASE/STATE of all that a sentence quotes."""
    return [place for number in finding.numbers.values() for place in (number.over, number.under)]


def shown(finding: Finding) -> list[str]:
    """Return LAYOUT/CASE/STATE of all that a figure shows."""
    rows = finding.rows.values()
    return [place.replace("*", row) for place in finding.series.values() for row in rows]


def cells_of(finding: Finding) -> Cells:
    """Return layout and case of all that a sentence quotes or its figure shows."""
    named = (place.rpartition("/")[0].partition("/") for place in (*quoted(finding), *shown(finding)))
    return frozenset((layout, case) for layout, _, case in named)


def phase_of(places: list[str], confirming: pd.DataFrame) -> str:
    """Return "confirm" where the confirming rounds hold all of these, else "main"."""
    return "confirm" if set(places) <= set(confirming.index) else "main"


def ratio(logs: pd.DataFrame, number: Number) -> str:
    """Return a number of a sentence with its interval: "43.2 times (37.0 to 50.5)"."""
    found = of_rounds(logs.loc[[number.over]].to_numpy() - logs.loc[[number.under]].to_numpy())
    low, high = (float(np.exp(end[0])) for end in found.interval())
    between = f" ({fmt.significant(low)} to {fmt.significant(high)})" if fmt.known(low) else ""
    return f"{fmt.significant(float(np.exp(found.value[0])))} times{between}"


def drawn(finding: Finding, logs: pd.DataFrame) -> Figure:
    """Return the figure: a row of points for each series, one a round, on a logarithmic axis of time."""
    values: list[float] = []
    figure = Figure(figsize=(7.0, 1.1 + 0.33 * len(finding.rows)), layout="constrained")
    axes = figure.subplots()
    for number, (words, place) in enumerate(finding.series.items()):
        for row, name in enumerate(finding.rows.values()):
            seconds = np.exp(logs.loc[place.replace("*", name)].dropna().to_numpy(dtype=float))
            values += seconds.tolist()
            above = 0.24 * (number - (len(finding.series) - 1) / 2)
            axes.plot(
                seconds, np.full(len(seconds), row + above), MARKERS[number], color=colours(STYLE)[number],
                markersize=6.5, markeredgecolor="white", markeredgewidth=0.7,
                label=words if row == 0 else None,
            )  # fmt: skip
    axes.set_yticks(range(len(finding.rows)), list(finding.rows))
    axes.set_ylim(len(finding.rows) - 0.5, -0.5)
    logarithmic(axes.xaxis, values, "time, one point a round", inches=5.0)
    if len(finding.series) > 1:
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(finding.series), borderaxespad=0.2)
    else:
        axes.set_title(next(iter(finding.series)))
    return figure


def newest_verdicts(docs: Path = DOCS) -> Path:
    """Return the page of verdicts that is dated last; raises ConfigurationError where there is none."""
    pages = sorted(docs.glob("claims-*.md"))
    if not pages:
        raise ConfigurationError(docs, "", "holds no page of verdicts, claims-DATE.md")
    return pages[-1]


def place_of(claim: str, study: str, verdicts: Path) -> str:
    """Return the link to a claim of a study on a page of verdicts; raises ConfigurationError where it is not
    there.
    """
    for heading in re.findall(r"^### (.+)$", verdicts.read_text(encoding="utf-8"), re.M):
        if heading.startswith(f"{claim}: ") and heading.endswith(f"({study})"):
            return f"{verdicts.name}#{fmt.anchor(heading)}"
    raise ConfigurationError(verdicts, "", f"has no verdict on {claim} of study {study}")


def part_of(
    finding: Finding, number: int, logs: pd.DataFrame, phase: str, verdicts: Path, before: bool = False
) -> str:
    """Return what the page says of one finding; `verdicts` is the page of all verdicts, and `before` is
    whether its figure shows rounds before the choice where its numbers are of those after it.
    """
    numbers = {name: ratio(logs, value) for name, value in finding.numbers.items()}
    site, study = "../site", finding.study
    # A ratio rests on the rounds that both have.
    pairs = [logs.loc[[value.over, value.under]] for value in finding.numbers.values()]
    rounds = fmt.span((int(pair.notna().all().sum()) for pair in pairs), PHASES[phase])
    source = rounds + (" after the choice" if phase == "confirm" else "")
    told = f"numbers from its {source}" + (", which no other rounds confirm" if phase == "main" else "")
    told += ", points from its rounds before" if before else ""
    pack = f"packs/{study}{SUFFIX}"
    evidence = [f"[the pack](../{pack}), whose report `make report PACK={pack}` makes"]
    pages = [f"[the report]({site}/{study}/report.html)"]
    if finding.claim:
        where = place_of(finding.claim, study, verdicts)
        evidence.insert(0, f"[the verdict on {finding.claim}]({where})")
        pages.insert(0, f"[the claim]({site}/index.html#claim-{study}-{finding.claim})")
    lines = [
        f"## {number}. {finding.heading}",
        finding.sentence.format(**numbers).strip(),
        f"![{finding.heading}: {'; '.join(finding.rows)}](figures/{finding.name}.svg)",
        f"Study `{study}`, {told}. Evidence: {fmt.listing(evidence)}. On the website: {fmt.listing(pages)}.",
    ]
    return "\n\n".join(lines) + "\n"


def page(findings: Findings, packs: Path, figures: Path | None) -> str:
    """Return the page, and draw its figures into the folder `figures`, if any.

    Raises PackError and ConfigurationError.
    """
    verdicts = newest_verdicts()
    parts = [findings.opening.replace(NEWEST, verdicts.name)]
    for number, finding in enumerate(findings.findings, 1):
        pack = packs / f"{finding.study}{SUFFIX}"
        if figures:
            print(f"findings: {finding.name}, {number} of {len(findings.findings)}", file=sys.stderr)
        cells = cells_of(finding)
        by_phase = {one: logs_of(pack, one, finding.site, cells) for one in PHASES}
        confirming = by_phase["confirm"]
        phase = phase_of(quoted(finding), confirming)
        points = phase_of([*quoted(finding), *shown(finding)], confirming)
        logs, rounds = by_phase[phase], by_phase[points]
        check(finding, quoted(finding), logs)
        check(finding, shown(finding), rounds)
        parts.append(part_of(finding, number, logs, phase, verdicts, points != phase))
        if figures:
            figures.mkdir(exist_ok=True)
            rc: Any = settings(STYLE)
            with mpl.rc_context(rc):
                save(drawn(finding, rounds), figures / f"{finding.name}.svg")
    return "\n".join(parts)


def check(finding: Finding, named: list[str], logs: pd.DataFrame) -> None:
    """Raise ConfigurationError where a finding names what its pack does not hold."""
    if absent := [place for place in named if place not in logs.index]:
        raise ConfigurationError(SOURCE, finding.name, f"study {finding.study} has no {absent[0]}")


def read(file: Path = SOURCE) -> Findings:
    """Return the findings; raises ConfigurationError."""
    return validate(Findings, read_yaml(file), file)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--packs", type=Path, default=PROJECT / "packs", help="where packs lie (default: packs)"
    )
    try:
        text = page(read(), parser.parse_args().packs, DOCS / "figures")
    except (ConfigurationError, PackError) as error:
        sys.exit(f"error: {error}")
    (DOCS / "index.md").write_text(text, encoding="utf-8")
    print(DOCS / "index.md")


if __name__ == "__main__":
    main()
