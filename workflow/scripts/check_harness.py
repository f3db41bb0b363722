"""Does the harness add anything? Hyperslab's read cases against a bare h5py loop.

    check_harness.py openmsi-chunking --root testfiles --layouts contiguous 4x4x2048

A block is one run of each, in two new processes that take turns selection by selection: what the device and
the machine do in one second meets both. Hyperslab's is forked, as those of a run's cells are, the other one
is an interpreter that has just started. Each has a file of its own, written alike, so that neither finds in
the page cache what the other read; files and who begins change from block to block. Boxes and cache settings
are the same. Blocks are added until the interval is narrow or --blocks is reached. Printed is the median over
the blocks of the ratio of their medians, Hyperslab over bare, with its 95 % interval from order statistics:
on a shared machine a few slow blocks would decide a mean. Exit status 1 where an upper limit exceeds 1.05, or
is not known for want of blocks.

Residency is recorded per repeat, so on one open file the bare loop asks for it between two reads, too.

    check_harness.py openmsi-chunking --root testfiles --sides forked-bare bare

compares the bare loop with itself, in forked and in started processes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from hyperslab.specifications import Specification

SELF = Path(__file__)
LIMIT = 1.05
STATES = ("cold", "warm", "session")
# Blocks go on until the interval reaches no further than this factor from the ratio.
NARROW = 1.015
FEWEST_BLOCKS = 12
LOOPS = ("harness", "bare")
FORKED = "forked-"
SIDES = (*(FORKED + loop for loop in LOOPS), *LOOPS)
READY = "ready"
# How a process of this script learns what it is.
CHILD, SERVER, PARENT = "--child", "--server", "--parent"


def _timed(data: Any, pick: tuple[slice, ...]) -> float:
    """Return the seconds of one read; what was read is freed after the stopwatch,
    as freeing it is not reading it.
    """
    started = time.perf_counter()
    block = data[pick]
    stopped = time.perf_counter()
    del block
    return stopped - started


def in_turn(boxes: Iterable[Any]) -> Iterator[Any]:
    """Yield the boxes, each when it is this process's turn: it says that it is ready and waits for a line."""
    for box in boxes:
        print(READY, flush=True)
        sys.stdin.readline()
        yield box


def bare(spec: Specification, path: str, state: str) -> float:
    """Return the median seconds of the same selections in a plain loop,
    nothing of Hyperslab around the read.
    """
    import h5py

    from hyperslab.data.selections import asked_boxes
    from hyperslab.measuring import pagecache
    from hyperslab.states import COLD_AT_MOST, WARM_AT_LEAST

    settings, count = spec["layout"]["settings"], spec["repeats"][state]
    boxes = in_turn(asked_boxes(spec, state))
    cache = {
        "rdcc_nbytes": settings["chunk_cache_bytes"],
        "rdcc_nslots": settings["chunk_cache_slots"],
        "rdcc_w0": settings["chunk_cache_w0"],
    }
    descriptor = os.open(path, os.O_RDONLY)
    times = []
    if state == "cold":
        for box in itertools.islice(boxes, count):
            pagecache.evict_file(descriptor, COLD_AT_MOST)
            with h5py.File(path, "r", **cache) as file:
                times.append(_timed(file["data"], box.slices()))
    else:
        if state == "session":
            pagecache.evict_file(descriptor, COLD_AT_MOST)
        elif pagecache.resident_share([descriptor]) < WARM_AT_LEAST:
            pagecache.read_whole(descriptor)
        with h5py.File(path, "r", **cache) as file:
            data = file["data"]
            for box in itertools.islice(boxes, count):
                times.append(_timed(data, box.slices()))
                pagecache.resident_share([descriptor])
    # Hyperslab, too, draws a box more before it knows that it has enough.
    next(boxes)
    return statistics.median(times)


def harness(spec: Specification, path: str, state: str) -> float:
    """Return the median seconds as Hyperslab's own read case measures them."""
    from hyperslab import cases, formats
    from hyperslab.cases import read
    from hyperslab.cases.context import Context
    from hyperslab.data.selections import asked_boxes
    from hyperslab.data.values import open_values

    only: Specification = {**spec, "case": {**spec["case"], "states": [state]}}
    context = Context(only, formats.load("hdf5"), path, open_values(spec["dataset"]), False)
    with mock.patch.object(read, "asked_boxes", lambda *given: in_turn(asked_boxes(*given))):
        outcome = cases.load("read")(context)
    return float(statistics.median(row["time_s"] for row in outcome.repeats))


def _started(side: str, spec: Specification, path: str, state: str) -> subprocess.Popen[str]:
    own = [str(SELF)]
    if side.startswith(FORKED):
        own = ["-IS", str(SELF.with_name("run_forked.py")), SELF.stem]
    command = [sys.executable, *own, CHILD, side.removeprefix(FORKED), json.dumps(spec), path, state]
    environment = {**os.environ, "PYTHONPATH": str(SELF.parent)}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    )


def _serve(role: str, descriptor: int) -> None:
    """Be the fork server of this check, or a parent that it starts."""
    import fork_cells
    from hyperslab.measuring.fork_parent import Parent
    from hyperslab.measuring.fork_server import Server

    requests = socket.socket(fileno=descriptor)
    if role == SERVER:
        Server(requests, lambda _: [sys.executable, str(SELF), PARENT]).serve(sys.stdin.fileno())
    else:
        Parent(requests, SELF.stem).serve(lambda: fork_cells.import_everything("hdf5"))


def _answer(child: subprocess.Popen[str]) -> str:
    """Return the next line of a child; raises RuntimeError where it ended without one."""
    assert child.stdout is not None
    line = child.stdout.readline().strip()
    if not line:
        raise RuntimeError(f"a run ended with status {child.wait()} before it was done")
    return line


def _go(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("go\n")
    child.stdin.flush()


def block(spec: Specification, paths: dict[str, str], state: str, first: str) -> dict[str, float]:
    """Return the median seconds of both sides, each on its file of `paths`, taking turns;
    `first` begins every turn.
    """
    order = sorted(paths, key=lambda which: which != first)
    children = {which: _started(which, spec, paths[which], state) for which in order}
    try:
        for which in order:
            assert _answer(children[which]) == READY
        for _ in range(spec["repeats"][state]):
            for which in order:
                _go(children[which])
                assert _answer(children[which]) == READY
        for which in order:
            _go(children[which])
        return {which: float(_answer(children[which])) for which in order}
    finally:
        for child in children.values():
            child.kill()
            child.communicate()


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Return the median of ratios with its 95 % interval,
    from order statistics and the binomial distribution.
    """
    from scipy import stats

    bounds = stats.quantile_test(ratios, q=1, p=0.5).confidence_interval(0.95)
    return statistics.median(ratios), float(bounds.low), float(bounds.high)


def compared(
    cells: Iterable[Specification], files: Sequence[str], state: str, sides: Sequence[str]
) -> tuple[list[float], list[float]]:
    """Return the ratio of the first side to the second, and the second's median seconds, of a block a cell.

    Ends when the interval is narrow.
    """
    ratios: list[float] = []
    times: list[float] = []
    for number, cell in enumerate(cells):
        # Four blocks have every combination of file and order.
        paths = dict(zip(sides, files if number % 2 else reversed(files), strict=True))
        took = block(cell, paths, state, sides[number // 2 % 2])
        ratios.append(took[sides[0]] / took[sides[1]])
        times.append(took[sides[1]])
        if number + 1 >= FEWEST_BLOCKS and number % 4 == 3:
            ratio, low, high = interval(ratios)
            if max(high / ratio, ratio / low) <= NARROW:
                break
    return ratios, times


def check() -> int:
    """Compare what the command line names; returns the exit status."""
    from hyperslab import formats
    from hyperslab.data.values import open_values
    from hyperslab.measuring import fork_server
    from hyperslab.planning.planned_study import named_study
    from hyperslab.studies import specification
    from hyperslab.validation.errors import ConfigurationError
    from hyperslab.validation.nearest import choices

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
    parser.add_argument(
        "--sides", nargs=2, choices=SIDES, default=SIDES[0::3], metavar=("SIDE", "OTHER"),
        help=f"what is compared with what, of {', '.join(SIDES)} (default {' '.join(SIDES[0::3])})",
    )  # fmt: skip
    options = parser.parse_args()
    try:
        study = named_study(options.study)
    except ConfigurationError as error:
        parser.error(str(error))
    for option, names, known in (
        ("--layouts", options.layouts, list(study.layouts)),
        ("--cases", options.cases or (), study.read_cases()),
    ):
        for name in names:
            if name not in known:
                parser.error(f"{option}: no {name!r} in study {study.name}; there are {choices(name, known)}")
    fork_server.begin([sys.executable, str(SELF), SERVER])
    options.root.mkdir(parents=True, exist_ok=True)
    failed = False
    print("layout,case,state,ratio,low,high,bare_median_s,blocks")
    for layout in options.layouts:
        files = [str(options.root / f"check-harness-{layout}.{number}.h5") for number in (0, 1)]
        try:
            spec = specification.file_specification(study, layout, next(iter(study.cases)))
            for path in files:
                formats.load("hdf5").generate(path, spec, open_values(spec["dataset"]))
            for case in options.cases or study.read_cases():
                for state in [name for name in study.cases[case]["states"] if name in options.states]:
                    cells = (
                        specification.cell_specification(study, layout, case, f"r{number}")
                        | {"repeats": dict(zip(STATES, options.repeats, strict=True)), "most_repeats": {}}
                        for number in range(options.blocks)
                    )
                    ratios, times = compared(cells, files, state, options.sides)
                    ratio, low, high = interval(ratios)
                    failed |= not high <= LIMIT
                    numbers = f"{ratio:.3f},{low:.3f},{high:.3f},{statistics.median(times):.6f},{len(ratios)}"
                    print(f"{layout},{case},{state},{numbers}", flush=True)
        finally:
            for path in files:
                Path(path).unlink(missing_ok=True)
    return int(failed)


def main() -> None:
    """Run the check, or be one of the processes that it starts."""
    match sys.argv[1:]:
        case [role, descriptor] if role in (SERVER, PARENT):
            _serve(role, int(descriptor))
        case [role, chosen, text, file, state] if role == CHILD:
            loop = {"bare": bare, "harness": harness}[chosen]
            print(loop(json.loads(text), file, state), flush=True)
        case _:
            sys.exit(check())


if __name__ == "__main__":
    main()
