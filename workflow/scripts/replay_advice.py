"""How good is the prediction behind `make advise`: the regret of acting on it, on packs measured before.

replay_advice.py                                      of every pack of dense arrays that were read cold
replay_advice.py packs/NAME.tar.xz …                  of some
replay_advice.py --donor NAME=FILE::DATASET …         with filters tried on the data that filled a pack

Nothing is fitted: the speeds are round numbers that no pack had part in. For every weighting of the cases
and every choice of rounds, the layouts that are predicted to be the five best are compared by these rounds
alone, and the one that is best there is judged by the others. So are all layouts, beside it: as much of a
regret is the noise of the rounds, and no prediction's fault. Three rounds compare, as in advice, where a pack
has six or more, else half of them, of three one. Sizes of filtered chunks are those of the files, as a sample
of the data would tell them; so does the data, where it is there, tell how fast each filter is, which advice
always tries. Regret is the time of that layout over the best one's, less 1; a layout that cannot be told from
the best one counts as tied.
"""

import argparse
import itertools
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hyperslab.advising.candidates import MOST_UNFILTERED, Candidate, Filter
from hyperslab.advising.coding import Coded, coded, samples
from hyperslab.advising.model import Array, predict
from hyperslab.advising.probe import Storage
from hyperslab.advising.prospect import InPlace
from hyperslab.advising.reads import Read
from hyperslab.data.donor_paths import SEPARATOR
from hyperslab.data.values import Values
from hyperslab.formats.donor_files import open_donor
from hyperslab.results.comparisons import not_worse_than_best
from hyperslab.results.packs import SUFFIX, PackError, measurements
from hyperslab.results.requests import Question, objectives, request_times, typical
from hyperslab.results.statistics import summarise
from hyperslab.studies.case_kinds import kind_of
from hyperslab.studies.study import LoadedStudy
from hyperslab.validation.errors import ConfigurationError

PROJECT = Path(__file__).resolve().parents[2]
# Round numbers for a disk, and for gzip the seconds to decode a byte.
PRIOR = Storage(
    latency_s=100e-6, waited_s=1e-9, ahead_s=0.5e-9, cached_s=0.1e-9, lookup_s=5e-6, open_s=1e-3,
    read_ahead_bytes=8 * 2**20, steal_s=0.0, pressure_io_s=0.0,
)  # fmt: skip
DECODE_S = 2e-9
# Filters that the decoding speed stands for, and those beside them that take next to no time.
KNOWN = {"gzip", "shuffle"}
VERIFIED = 5
# Rounds by which advice compares layouts.
COMPARED_BY = 3
# Choices of them that are tried, at most, evenly many of all.
MOST_CHOICES = 20
OFTEN = 10.0
FEWEST = 6
# A regret within these is small, or bearable.
SMALL, BEARABLE = 0.05, 0.10


@dataclass(frozen=True)
class Judged:
    """What a pack says of the prediction; regrets are one a weighting and choice of rounds."""

    study: str
    layouts: int
    left_out: int
    spearman: float
    error: float
    first: list[float]
    verified: list[float]
    exhaustive: list[float]
    small: list[bool]

    def shares(self) -> tuple[float, float, float]:
        """Return how often regret is small or tied, how often bearable, and that of all verified."""
        verified, all_ = np.array(self.verified), np.array(self.exhaustive)
        return (
            float(np.mean(self.small)),
            float(np.mean(verified <= BEARABLE)),
            float(np.mean(all_ <= BEARABLE)),
        )

    def line(self) -> str:
        """Return it as a line of the table."""
        first, verified, all_ = np.array(self.first), np.array(self.verified), np.array(self.exhaustive)
        small, bearable, all_bearable = self.shares()
        cells = [
            f"{self.study:24} {self.layouts:4} of {self.layouts + self.left_out:3}",
            f"{self.spearman:5.2f}  {self.error:5.0%}",
            f"{first.mean():7.0%} {first.max():7.0%}",
            f"{verified.mean():7.1%} {verified.max():7.0%}",
            f"{small:7.0%}  {bearable:6.0%}",
            f"{all_.mean():7.1%} {all_.max():5.0%}  {all_bearable:6.0%}",
        ]
        return "  ".join(cells)


HEAD = "\n".join([
    f"{'':40}rank  error  first predicted  best of 5 verified    ≤ 5 %            all verified",
    "study                        layouts    corr.   med.    mean     max     mean      max  or tied  ≤ 10 %"
    "     mean   max  ≤ 10 %",
])  # fmt: skip


def slower(storage: Storage, factor: float) -> Storage:
    """Return a storage of which everything takes `factor` times as long."""
    times = {key: value * factor for key, value in asdict(storage).items() if key.endswith("_s") and value}
    return replace(storage, **{key: value for key, value in times.items() if key != "bytes_per_s"})


def candidate_of(layout: Mapping[str, Any], itemsize: int) -> Candidate | None:
    """Return a study's layout as a candidate; None for one that advice would never name."""
    if layout["format"] != "hdf5" or layout.get("storage") or layout.get("release"):
        return None
    filters = tuple(
        Filter(one["name"], tuple((k, v) for k, v in one.items() if k != "name")) for one in layout["filters"]
    )
    if any(one.name not in KNOWN for one in filters):
        return None
    if not layout["chunks"]:
        return Candidate(None)
    if not filters and math.prod(layout["chunks"]) * itemsize > MOST_UNFILTERED:
        return None
    return Candidate(tuple(layout["chunks"]), filters)


def predictions(
    study: LoadedStudy, rows: pd.DataFrame, cases: list[str], values: Values | None = None,
    storage: Storage = PRIOR,
) -> pd.DataFrame:  # fmt: skip
    """Return layouts x cases of predicted seconds, for those layouts that advice might name.

    Filters are tried on `values`, where the data that filled the files is there.
    """
    dataset = study.dataset
    ratios = rows.groupby("layout", observed=True)["ratio_padded"].median()
    found: dict[str, dict[str, float]] = {}
    seen = set()
    for name, layout in study.layouts.items():
        candidate = candidate_of(layout, dataset.itemsize)
        # Layouts that differ by their settings alone are one to advice.
        if candidate is None or name not in ratios.index or (candidate, *layout["order"]) in seen:
            continue
        seen.add((candidate, *layout["order"]))
        # As it lies on disk: extents and boxes in the order of the layout's axes.
        order = [dataset.axes.index(axis) for axis in layout["order"]]
        chunks = tuple(candidate.chunks[at] for at in order) if candidate.chunks else None
        array = Array(tuple(dataset.shape[at] for at in order), dataset.itemsize)
        reads = [Read(case, tuple(study.cases[case]["extent"][at] for at in order)) for case in cases]
        filtered = any(one.name == "gzip" for one in candidate.filters)
        code = Coded(1 / float(ratios[name]), DECODE_S) if filtered else Coded(1.0, 0.0)
        if filtered and values is not None and candidate.chunks:
            tried = coded(samples(values, candidate.chunks), candidate.filters)
            code = Coded(code.ratio, tried.decode_s)
        found[name] = dict(predict(Candidate(chunks, candidate.filters), array, reads, storage, code).times)
    return pd.DataFrame(found).T


@contextmanager
def data_of(study: LoadedStudy, donor: str) -> Iterator[Values]:
    """Open the data that filled the files of a pack, for samples of it."""
    file, _, dataset = donor.partition(SEPARATOR)
    with open_donor(Path(file), dataset or None) as array:
        held = [min(a, b) for a, b in zip(array.shape, study.dataset.shape, strict=True)]
        yield InPlace(array, held, study.dataset.dtype, Path(file))


def weightings(cases: list[str]) -> Iterator[dict[tuple[str, str], float]]:
    """Yield shares of cold cases: equal ones, each case alone, and each ten times as often as the others."""
    wanted = [dict.fromkeys(cases, 1.0)]
    wanted += [{case: 1.0} for case in cases]
    wanted += [{case: OFTEN if case == often else 1.0 for case in cases} for often in cases]
    for weights in wanted:
        total = sum(weights.values())
        yield {(case, "cold"): weight / total for case, weight in weights.items()}


def choices(rounds: list[int]) -> list[tuple[int, ...]]:
    """Return which of a pack's rounds compare layouts; the others judge."""
    every = list(itertools.combinations(rounds, min(COMPARED_BY, len(rounds) // 2)))
    return every[:: math.ceil(len(every) / MOST_CHOICES)]


def judge(
    name: str, study: LoadedStudy, table: pd.DataFrame, values: Values | None = None,
    storage: Storage = PRIOR,
) -> Judged | None:  # fmt: skip
    """Return what the main rounds of a pack at one site say; None where too few layouts were read cold."""
    cases = [
        case
        for case, described in study.cases.items()
        if kind_of(described).reads_selections
        and "cold" in described["states"]
        and not described.get("pattern")
        and not described.get("level")
        and described["shape"] == study.dataset.shape
    ]
    rows = table[(table["phase"] == "main") & (table["state"] == "cold") & table["case"].isin(cases)]
    if rows.empty or study.dataset.model != "array":
        return None
    cases = [case for case in cases if case in set(rows["case"])]
    summary = summarise(rows)
    predicted = predictions(study, rows, cases, values, storage)
    complete = [
        layout for layout in predicted.index
        if all(layout in request_times(summary, (case, "cold")).dropna().index for case in cases)
    ]  # fmt: skip
    predicted = predicted.loc[complete]
    if len(predicted) < FEWEST or summary["round"].nunique() < 2:
        return None
    measured = pd.DataFrame({case: typical(request_times(summary, (case, "cold"))) for case in cases}).loc[
        complete
    ]
    first, verified, exhaustive, small = [], [], [], []
    for shares in weightings(cases):
        logs = objectives(summary, Question(shares, "mix", 0.0), {}).loc[complete].dropna(axis=1)
        stays = dict(zip(complete, not_worse_than_best(logs)[1], strict=True))
        expected = sum(share * predicted[case] for (case, _), share in shares.items())
        few = list(expected.sort_values().index[:VERIFIED])
        for chosen in choices(list(logs.columns)):
            others = np.exp(logs.drop(columns=list(chosen)).mean(axis=1))
            compared = logs[list(chosen)].mean(axis=1)
            pick = compared[few].idxmin()
            first.append(float(others[few[0]] / others.min() - 1))
            verified.append(float(others[pick] / others.min() - 1))
            exhaustive.append(float(others[compared.idxmin()] / others.min() - 1))
            small.append(verified[-1] <= SMALL or (len(logs.columns) >= 3 and bool(stays[pick])))
    equal = [table.rank() for table in (predicted.mean(axis=1), measured.mean(axis=1))]
    return Judged(
        name, len(predicted), summary["layout"].nunique() - len(predicted), float(equal[0].corr(equal[1])),
        float((predicted / measured - 1).abs().stack().median()), first, verified, exhaustive, small,
    )  # fmt: skip


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("packs", nargs="*", type=Path, help="packs; all of packs/ if none is named")
    parser.add_argument(
        "--donor",
        action="append",
        default=[],
        metavar="NAME=FILE[::DATASET]",
        help="the data that filled the files of the pack NAME",
    )
    parser.add_argument(
        "--wrong",
        type=float,
        default=1.0,
        metavar="FACTOR",
        help="all speeds of the storage wrong by a factor",
    )
    parser.add_argument(
        "--read-ahead",
        type=int,
        default=PRIOR.read_ahead_bytes,
        help="what the kernel is taken to read ahead",
    )
    options = parser.parse_args()
    storage = replace(slower(PRIOR, options.wrong), read_ahead_bytes=options.read_ahead)
    donors = dict(given.split("=", 1) for given in options.donor)
    judged = []
    print(HEAD)
    for pack in options.packs or sorted((PROJECT / "packs").glob(f"*{SUFFIX}")):
        name = pack.name.removesuffix(SUFFIX)
        try:
            study = LoadedStudy(PROJECT / "config" / "studies" / f"{name}.yaml")
            table = measurements(pack)
        except (PackError, ConfigurationError) as error:
            sys.exit(f"error: {error}")
        for site, rows in table.groupby("site", observed=True):
            several = table["site"].nunique() > 1
            with ExitStack() as stack:
                values = stack.enter_context(data_of(study, donors[name])) if name in donors else None
                found = judge(f"{name} {site}" if several else name, study, rows, values, storage)
            if found:
                judged.append(found)
                print(found.line(), flush=True)
    if not judged:
        sys.exit("error: none of these packs has six layouts of one array that were read cold in two rounds")
    small, bearable, all_ = np.mean([pack.shares() for pack in judged], axis=0)
    print(
        f"mean of {len(judged)} packs: within 5 % or tied {small:.0%}, within 10 % {bearable:.0%} "
        f"(all layouts verified: {all_:.0%})"
    )


if __name__ == "__main__":
    main()
