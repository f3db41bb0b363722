"""How good advice is, live: what it names, in a whole grid of layouts measured afterwards with other seeds.

judge_advice.py PLAN.yaml                 everything that is not there yet, then the table
judge_advice.py PLAN.yaml --dry-run       what would run: studies, layouts, cells, bytes, about how long
judge_advice.py PLAN.yaml --only table    the table of what is there
judge_advice.py PLAN.yaml --sites FILE    with the sites of another file than config/sites.yaml

PLAN names arrays with their reads and mixes, and the sites; config/advice-judge.yaml is one:

    sites: [disk, portal]
    seconds: 60                           # or {disk: 60, portal: 120}
    arrays:
      waveforms:
        dataset: {axes: [event, sensor, t], shape: [9, 1792, 1300], dtype: int16, donor: {path: FILE}}
        reads: {event: [1, all, all], trace: [1, 1, all], moment: [all, all, 1]}
        mixes:
          equal: {}
          traces: {trace: 10, event: 1, moment: 1}
          moments: {moment: 10, event: 1, trace: 1}

Each array, mix and site gets an advice of its own. Then a grid of at least twenty layouts and all that were
advised are measured in three rounds at all sites, and each advice is held against the best of them. Beside it
stands what the layout that is best at the other site would take here: where that is worse, the advice has to
change with the site. An empty mix is advice without one. Run it where the Snakefile is.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hyperslab.advising.candidates import Candidate, Filter
from hyperslab.advising.reads import of_mapping
from hyperslab.layouts.chunks import even_chunks
from hyperslab.records import read_json
from hyperslab.results.recommend import recommend, size_bound
from hyperslab.results.tables import read_summary
from hyperslab.studies.dataset_schema import ITEMSIZE
from hyperslab.text import listing, significant
from hyperslab.validation.errors import ConfigurationError
from hyperslab.validation.yaml_files import read_yaml
from judged_plan import USUAL_S, plan_of

SEED, ROUNDS, COLD = 20_000, 3, 7
# Sizes of chunks in the grid, bytes.
SIZES = (2**14, 2**16, 2**18, 2**20)
SHUFFLE = Filter("shuffle")
CHAINS = ((), (SHUFFLE, Filter("gzip", (("level", 4),))), (SHUFFLE, Filter("zstd", (("level", 3),))))
SIZE_BOUND = 1.15
WITHIN = 1.10
# About how long a byte of a test file and a cell take, seconds.
FILE_S, CELL_S = 1e-8, 1.5
# Layouts that are advised beside the grid, about.
MOST_PICKS = 6
STEPS = ("advise", "grid", "table")


@dataclass(frozen=True)
class Case:
    """One advice to judge."""

    array: str
    mix: str
    site: str

    @property
    def study(self) -> str:
        """The name of the study that asks for it."""
        return f"advice-judge-{self.array}-{self.mix}-{self.site}"


def cases(plan: Mapping[str, Any]) -> list[Case]:
    """Return every advice of a plan."""
    return [
        Case(array, mix, site)
        for array, described in plan["arrays"].items()
        for mix, site in itertools.product(described["mixes"], plan["sites"])
    ]


def seconds_at(plan: Mapping[str, Any], site: str) -> float:
    """Return how long an advice may take at a site."""
    seconds = plan.get("seconds", USUAL_S)
    return float(seconds.get(site, USUAL_S) if isinstance(seconds, Mapping) else seconds)


def asking(plan: Mapping[str, Any], case: Case) -> dict[str, Any]:
    """Return the study that asks for an advice."""
    described = plan["arrays"][case.array]
    mix = described["mixes"][case.mix]
    asked: dict[str, Any] = {
        "dataset": described["dataset"],
        "reads": described["reads"],
        "size_bound": SIZE_BOUND,
    }
    asked |= {"sites": [case.site], "seconds": seconds_at(plan, case.site)}
    return {"advise": {**asked, **({"mix": mix} if mix else {})}}


def grid(dataset: Mapping[str, Any], reads: Mapping[str, Any]) -> list[Candidate]:
    """Return a grid of layouts: contiguous, even chunks, and chunks along each read, with three filters."""
    shape, itemsize = dataset["shape"], ITEMSIZE[dataset["dtype"]]
    shapes = [tuple(even_chunks(shape, itemsize, size)) for size in SIZES]
    for read in of_mapping(reads, {}, dataset["axes"], shape):
        shapes += [tuple(_along(read.extent, shape, itemsize, size)) for size in SIZES[1:3]]
    return [Candidate(None), *(Candidate(one, chain) for one in dict.fromkeys(shapes) for chain in CHAINS)]


def _along(extent: Sequence[int], shape: Sequence[int], itemsize: int, size: int) -> list[int]:
    """Return a chunk of about `size` bytes in the form of a read: a part of it, or some side by side."""
    chunk = list(extent)
    while math.prod(chunk) * itemsize > size:
        axis = chunk.index(max(chunk))
        chunk[axis] = -(-chunk[axis] // 2)
    while math.prod(chunk) * itemsize * 2 <= size:
        short = [axis for axis, one in enumerate(chunk) if one < shape[axis] and extent[axis] < shape[axis]]
        if not short:
            break
        axis = min(short, key=chunk.__getitem__)
        chunk[axis] = min(shape[axis], 2 * chunk[axis])
    return chunk


def measuring(plan: Mapping[str, Any], array: str, advised: Mapping[str, Any]) -> dict[str, Any]:
    """Return the study that measures the grid of an array and the layouts that were advised for it."""
    described = plan["arrays"][array]
    layouts = {one.name: one.layout() for one in grid(described["dataset"], described["reads"])}
    known = {json.dumps(layout, sort_keys=True) for layout in layouts.values()}
    for name, layout in advised.items():
        if (text := json.dumps(layout, sort_keys=True)) not in known:
            known.add(text)
            layouts[name] = layout
    axes = described["dataset"]["axes"]
    boxes = {
        name: dict(zip(axes, box, strict=True)) if isinstance(box, list) else box
        for name, box in described["reads"].items()
    }
    return {
        "title": f"Every layout of a grid, and those advised, of {array}",
        "dataset": described["dataset"],
        "layouts": layouts,
        "cases": {name: {"read": box, "states": ["cold"]} for name, box in boxes.items()},
        "sites": list(plan["sites"]),
        "rounds": ROUNDS,
        "repeats": {"cold": COLD},
        "shared_files": True,
        "seed": SEED,
        "recommendation": {"confirm_rounds": 0, "size_bound": SIZE_BOUND},
    }


def write(name: str, study: Mapping[str, Any]) -> None:
    """Put a study among the others."""
    file = Path("config/studies") / f"{name}.yaml"
    file.write_text(yaml.safe_dump(dict(study), sort_keys=False), encoding="utf-8")


def build(target: str, profile: str, sites: Path | None) -> None:
    """Have Snakemake make a result; ends where it cannot."""
    command = [sys.executable, "-m", "snakemake", "--profile", profile]
    command += ["--config", f"sites={sites}"] if sites else []
    command += ["--", target]
    if subprocess.run(command, check=False).returncode:
        sys.exit(f"error: {target} could not be made")


def pick_of(case: Case) -> tuple[str, dict[str, Any], float]:
    """Return the layout that was advised, as a study says it, and how long the advice took, in seconds.

    Ends where none was, or not yet.
    """
    results = Path("results") / case.study
    file = results / "recommendation.json"
    if not file.exists():
        sys.exit(f"error: {file}: there is no such file; run it with --only advise first")
    answer = read_json(file)
    found: Any = next((entry for entry in answer["sites"] if entry["site"] == case.site), {})
    name = found.get("pick")
    if name is None:
        why = found.get("reason") or "it has no results there"
        sys.exit(f"error: {file}: no layout is advised for {case.site}: {why}; leave it out of the plan")
    study = read_yaml(results / "study.yaml")
    took = read_json(results / "advice-ended.json")
    return str(name), study["layouts"][name], took["ended_wall_s"] - took["began_wall_s"]


def table(plan: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the table of what is there."""
    heads = [
        "array",
        "mix",
        "site",
        "advised",
        "in",
        "over the best",
        "tied",
        "best of the grid",
        "best of the other site",
        "over it here",
        "within 10 %",
    ]
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    good = 0
    there = [one for one in cases(plan) if _summary(one.array).exists()]
    for case in there:
        described = plan["arrays"][case.array]
        name, layout, took = pick_of(case)
        grid_study = f"judge-{case.array}"
        summary = read_summary(_summary(case.array))
        study, measured = read_yaml(Path(f"config/studies/{grid_study}.yaml")), set(summary["layout"])
        same = (key for key, value in study["layouts"].items() if value == layout and key in measured)
        mine = next(same, None)
        if mine is None or not set(plan["sites"]) <= set(summary["site"]):
            sys.exit(
                f"error: {_summary(case.array)}: lacks {name}, which {case.study} advises, or a site of the "
                "plan; run it with --only grid again"
            )
        raw = math.prod(described["dataset"]["shape"]) * ITEMSIZE[described["dataset"]["dtype"]]
        mix, bound = described["mixes"][case.mix] or None, size_bound(raw, SIZE_BOUND)
        ranked = {
            site: recommend(summary[summary["site"] == site], mix, bound)[0].ranking for site in plan["sites"]
        }
        rows = {entry.layout: entry for entry in ranked[case.site]}
        leaders = {
            site: next(entry.layout for entry in ranking if entry.fits) for site, ranking in ranked.items()
        }
        row, best = rows[mine], rows[leaders[case.site]]
        ratio = row.objective / best.objective
        others = [leader for site, leader in leaders.items() if site != case.site]
        elsewhere = [significant(rows[leader].objective / best.objective) for leader in others]
        well = ratio <= WITHIN or row.tied
        good += well
        words = [case.array, case.mix, case.site, name, f"{took:.0f} s", significant(ratio)]
        words += ["yes" if row.tied else "no", best.layout, ", ".join(others), ", ".join(elsewhere)]
        words += ["yes" if well else "no"]
        yield f"| {' | '.join(words)} |"
    yield f"\n{good} of {len(there)} within 10 % of the best, or not to be told from it."
    if missing := [array for array in plan["arrays"] if not _summary(array).exists()]:
        yield f"Not measured yet: {listing(missing)}."


def _summary(array: str) -> Path:
    """Return where the table of an array's grid is, or will be."""
    return Path(f"results/judge-{array}/summary.csv")


def foretold(plan: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a plan would run."""
    asked = cases(plan)
    seconds = sum(seconds_at(plan, one.site) for one in asked)
    yield f"{len(asked)} advices, {seconds / 60:.0f} min: {listing([one.study for one in asked])}"
    for array, described in plan["arrays"].items():
        layouts = len(grid(described["dataset"], described["reads"]))
        raw = math.prod(described["dataset"]["shape"]) * ITEMSIZE[described["dataset"]["dtype"]]
        picks = min(MOST_PICKS, len(described["mixes"]) * len(plan["sites"]))
        files = (layouts + picks) * ROUNDS * len(plan["sites"])
        cells = files * len(described["reads"])
        minutes = (files * raw * FILE_S + cells * CELL_S) / 60
        yield (
            f"judge-{array}: {layouts} layouts and those advised, {files} files of {raw / 1e6:.0f} MB that "
            f"{cells} cells read, about {minutes:.0f} min"
        )


def run(options: argparse.Namespace) -> None:
    """Take the steps that are asked for, or say what they would be; raises ConfigurationError."""
    plan = plan_of(options.plan)
    if options.dry_run:
        print("\n".join(foretold(plan)))
        return
    steps = [options.only] if options.only else STEPS
    if "advise" in steps:
        for case in cases(plan):
            if not Path(f"results/{case.study}/advice.html").exists():
                write(case.study, asking(plan, case))
                build(f"results/{case.study}/advice.html", options.profile, options.sites)
    if "grid" in steps:
        for array in plan["arrays"]:
            picks = [pick_of(case)[:2] for case in cases(plan) if case.array == array]
            write(f"judge-{array}", measuring(plan, array, dict(picks)))
            build(f"results/judge-{array}/recommendation.json", options.profile, options.sites)
    if "table" in steps:
        print("\n".join(table(plan)))


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("plan", type=Path, help="arrays, reads, mixes and sites, as YAML")
    parser.add_argument("--only", choices=STEPS, help="one step alone")
    parser.add_argument("--dry-run", action="store_true", help="say what would run")
    parser.add_argument("--profile", default="profiles/local", help="Snakemake's")
    parser.add_argument("--sites", type=Path, help="the file of sites; otherwise as for any other run")
    options = parser.parse_args()
    try:
        run(options)
    except ConfigurationError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
