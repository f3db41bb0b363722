"""Does the harness add anything? Hyperslab's read cases against a bare h5py loop on the same file.

    check_harness.py openmsi-chunking --root testfiles --layouts contiguous 4x4x2048

Each block runs both, in new processes and in alternating order, with the same boxes and cache settings.
Blocks are added until the interval is narrow or --blocks is reached. Printed is the median over the blocks of
the ratio of their medians, Hyperslab over bare, with its 95 % interval from order statistics: on a shared
machine a few slow blocks would decide a mean. Exit status 1 where an upper limit exceeds 1.05.

Residency is recorded per repeat, so on one open file the bare loop asks for it between two reads, too. With
--tight it reads without a pause: very short reads then find their data in the processor's own caches.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SELF = Path(__file__)
LIMIT = 1.05
STATES = ("cold", "warm", "session")
# Blocks go on until the interval reaches no further than this factor from the ratio.
NARROW = 1.015
FEWEST_BLOCKS = 12


def _timed(data: Any, pick: tuple[slice, ...]) -> float:
    """Seconds of one read; what was read is freed after the stopwatch, as freeing it is not reading it."""
    started = time.perf_counter()
    block = data[pick]
    stopped = time.perf_counter()
    del block
    return stopped - started


def bare(spec: dict[str, Any], path: str, state: str, tight: bool = False) -> float:
    """Median seconds of the same selections in a plain loop, nothing of Hyperslab around the read."""
    import h5py

    from hyperslab.measuring import pagecache
    from hyperslab.measuring.residency import COLD_AT_MOST
    from hyperslab.selections import generator, random_boxes

    case, settings, count = spec["case"], spec["layout"]["settings"], spec["repeats"][state]
    rng = generator(spec["seed"], case["name"], spec["round"], state)
    picks = [box.slices() for box in random_boxes(spec["dataset"]["shape"], case["extent"], count, rng)]
    cache = {
        "rdcc_nbytes": settings["chunk_cache_bytes"],
        "rdcc_nslots": settings["chunk_cache_slots"],
        "rdcc_w0": settings["chunk_cache_w0"],
    }

    descriptor = os.open(path, os.O_RDONLY)

    times = []
    if state == "cold":
        for pick in picks:
            pagecache.evict(descriptor, COLD_AT_MOST)
            with h5py.File(path, "r", **cache) as file:
                data = file["data"]
                times.append(_timed(data, pick))
        return statistics.median(times)
    if state == "session":
        pagecache.evict(descriptor, COLD_AT_MOST)
    else:
        # Not by read(), whose large blocks, once freed, change how the C library serves all later requests.
        pagecache.read_whole(descriptor)
    with h5py.File(path, "r", **cache) as file:
        data = file["data"]
        for pick in picks:
            times.append(_timed(data, pick))
            if not tight:
                pagecache.resident_share(descriptor)
    return statistics.median(times)


def tight(spec: dict[str, Any], path: str, state: str) -> float:
    """As `bare`, with nothing at all between two reads of one open file."""
    return bare(spec, path, state, tight=True)


def harness(spec: dict[str, Any], path: str, state: str) -> float:
    """Median seconds as Hyperslab's own read case measures them."""
    from hyperslab import cases, formats
    from hyperslab.values import open_values

    only = {**spec, "case": {**spec["case"], "states": [state]}}
    context = cases.Context(only, formats.load("hdf5"), path, open_values(spec["dataset"]), False)
    return float(statistics.median(row["time_s"] for row in cases.load("read")(context).repeats))


def run_one(which: str, spec: dict[str, Any], path: str, state: str) -> float:
    """One of the two in a process of its own."""
    command = [sys.executable, str(SELF), "--child", which, json.dumps(spec), path, state]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Median of ratios with its 95 % interval, from order statistics and the binomial distribution."""
    from scipy import stats

    bounds = stats.quantile_test(ratios, q=1, p=0.5).confidence_interval(0.95)
    return statistics.median(ratios), float(bounds.low), float(bounds.high)


def main() -> int:
    """Entry point."""
    from hyperslab import formats, specification
    from hyperslab.planning.planned_study import PlannedStudy
    from hyperslab.values import open_values

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", help="name of a study in config/studies")
    parser.add_argument("--root", type=Path, default=Path("testfiles"), help="where the test files go")
    parser.add_argument("--layouts", nargs="+", default=["contiguous", "4x4x2048"])
    parser.add_argument(
        "--blocks", type=int, default=120, help="pairs of runs, at most, for each layout, case and state"
    )
    parser.add_argument("--cases", nargs="+", help="only these read cases of the study (default all)")
    parser.add_argument(
        "--states", nargs="+", choices=STATES, default=STATES, help="only these (default all)"
    )
    parser.add_argument(
        "--repeats", nargs=3, type=int, default=[15, 25, 25], metavar=("COLD", "WARM", "SESSION"),
        help="selections of a run in each state (default 15 25 25)",
    )  # fmt: skip
    parser.add_argument("--tight", action="store_true", help="the bare loop reads without a pause")
    options = parser.parse_args()
    study = PlannedStudy(Path("config/studies") / f"{options.study}.yaml")
    options.root.mkdir(parents=True, exist_ok=True)
    worst, plain = 0.0, "tight" if options.tight else "bare"
    print("layout,case,state,ratio,low,high,bare_median_s,blocks")
    for layout in options.layouts:
        path = str(options.root / f"check-harness-{layout}.h5")
        try:
            spec = specification.file_specification(study, layout, next(iter(study.cases)))
            formats.load("hdf5").generate(path, spec, open_values(spec["dataset"]))
            for case in options.cases or study.read_cases():
                for state in [name for name in study.cases[case]["states"] if name in options.states]:
                    ratios, times = [], []
                    for block in range(options.blocks):
                        cell = specification.cell_specification(study, layout, case, f"r{block}")
                        cell["repeats"] = dict(zip(STATES, options.repeats, strict=True))
                        order = ("harness", plain) if block % 2 else (plain, "harness")
                        took = {which: run_one(which, cell, path, state) for which in order}
                        ratios.append(took["harness"] / took[plain])
                        times.append(took[plain])
                        if block + 1 >= FEWEST_BLOCKS:
                            ratio, low, high = interval(ratios)
                            if high / ratio <= NARROW:
                                break
                    ratio, low, high = interval(ratios)
                    worst = max(worst, high)
                    numbers = f"{ratio:.3f},{low:.3f},{high:.3f},{statistics.median(times):.6f},{len(ratios)}"
                    print(f"{layout},{case},{state},{numbers}", flush=True)
        finally:
            Path(path).unlink(missing_ok=True)
    return int(worst > LIMIT)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _, _, chosen, text, file, wanted = sys.argv
        print({"bare": bare, "tight": tight, "harness": harness}[chosen](json.loads(text), file, wanted))
    else:
        sys.exit(main())
