"""IDX beside OpenVisus: which writer is faster (writers), and what it reads of what ranks wrote (ranks).

Both need the environment of OpenVisus, and `ranks` that of MPI, where they are made by:
sh envs/create-release envs/releases/openvisus-2.2.149.lock .venv-releases/openvisus-2.2.149
sh envs/create-mpi envs/mpi .venv-mpi
Usage: python check_idx_openvisus.py writers|ranks --help
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.selections import Box, coarse
from hyperslab.data.tiles import covering, selected
from hyperslab.data.values import open_values
from hyperslab.formats.idx.array import FORMAT
from hyperslab.formats.idx.places import files_of
from hyperslab.layouts.environments import made
from hyperslab.layouts.idx import OPENVISUS
from hyperslab.measuring.process import interpreter_of

if TYPE_CHECKING:
    from hyperslab.specifications import Specification

AXES = ["x", "y", "z"]
# What is compared at once, in bytes.
SLAB_BYTES = 2**26


def specification(extent: int, **layout: Any) -> Specification:
    """Return dataset and layout of a cube of 16-bit samples; `layout` is what a study says of it."""
    # What checks studies is not in OpenVisus' environment.
    from hyperslab.layouts import idx_schema
    from hyperslab.studies.dataset_schema import Dataset
    from hyperslab.validation.errors import Place

    dataset = Dataset.model_validate({"axes": AXES, "shape": [extent] * 3, "dtype": "uint16"})
    place = Place(Path("command line"))
    resolved: Any = idx_schema.resolve(place.validate(idx_schema.MODEL, layout), dataset, {}, place)
    array: Any = dataset.model_dump(include={"axes", "shape", "dtype", "fill"})
    return {"dataset": array, "layout": resolved}


def inside(what: str, told: dict[str, Any]) -> None:
    """Go on with `what` in the environment of OpenVisus; ends this process where that fails."""
    interpreter = interpreter_of(made(OPENVISUS))
    if not interpreter.exists():
        sys.exit(f"no environment of OpenVisus: {interpreter} (see --help)")
    words = [str(interpreter), __file__, what, json.dumps(told)]
    if status := subprocess.run(words, check=False).returncode:
        sys.exit(status)


# ---- writers


def writers(options: argparse.Namespace) -> None:
    """Time both writers in turn, whole and in parts, in both orders within a block."""
    orders = ("hz", "row-major")
    specs = {
        f"{order} {library}": specification(options.extent, within_block=order, settings={"library": library})
        for order in orders
        for library in ("hyperslab", "openvisus")
    }
    told = {"specs": specs, "part": options.part, "rounds": options.rounds}
    inside("inside-writers", {**told, "directory": str(options.directory)})


def inside_writers(told: dict[str, Any]) -> None:
    """Print rates into the page cache, and ratios, of all rounds."""
    directory, specs = Path(told["directory"]), told["specs"]
    shape = next(iter(specs.values()))["dataset"]["shape"]
    content = open_values(next(iter(specs.values()))["dataset"]).block((0, 0, 0), shape)
    for name, part in (("whole", shape), (f"{told['part']}^3 in turn", [told["part"]] * 3)):
        seconds: dict[str, list[float]] = {one: [] for one in specs}
        for number in range(told["rounds"]):
            # Who is first changes.
            for one in list(specs)[:: 1 if number % 2 else -1]:
                seconds[one].append(written(directory / "data.idx", specs[one], content, part))
        for order in ("hz", "row-major"):
            ours, theirs = seconds[f"{order} hyperslab"], seconds[f"{order} openvisus"]
            ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
            print(
                f"{name:14} {order:10} ours {rate(content, ours)}, OpenVisus {rate(content, theirs)}: "
                f"{statistics.median(ratios):.2f} times as fast ({min(ratios):.2f} to {max(ratios):.2f})"
            )


def rate(content: npt.NDArray[Any], seconds: list[float]) -> str:
    """Return the median rate in MB/s."""
    return f"{content.nbytes / statistics.median(seconds) / 1e6:6,.0f} MB/s"


def written(path: Path, spec: Any, content: npt.NDArray[Any], part: list[int]) -> float:
    """Return the seconds from create to close of a new dataset, which is removed."""
    os.sync()
    started = perf_counter()
    opened = FORMAT.create(str(path), spec)
    for box in covering(content.shape, part):
        opened.write(box, content[box.slices()])
    opened.flush()
    opened.close()
    taken = perf_counter() - started
    shutil.rmtree(path)
    return taken


# ---- ranks


def ranks(options: argparse.Namespace) -> None:
    """Have ranks write a cube, then OpenVisus read it at every level."""
    from hyperslab.cases.context import Context
    from hyperslab.cases.mpi import launch
    from hyperslab.data.sub_volumes import parts_along

    parts = parts_along(dict.fromkeys(options.along, options.extent), options.ranks)
    case: Any = {
        "name": "check", "kind": "subvolumes", "states": ["write"], "by": "ranks", "workers": options.ranks,
        "subvolumes": {"way": options.way, "along": parts, "aggregators": None, "files_each": None},
    }  # fmt: skip
    spec = specification(options.extent, bits_per_block=options.bits_per_block)
    path = options.directory / "data.idx"
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    context = Context(
        {**spec, "case": case}, FORMAT, str(path), open_values(spec["dataset"]), False,
        f"mpirun -n {options.ranks}",
    )  # fmt: skip
    try:
        (row,) = launch.ranks(context, "subvolumes.kept")["rows"]
        size = 2 * options.extent**3
        cut = " x ".join(f"{number} along {axis}" for axis, number in parts.items())
        print(
            f"{options.ranks} ranks ({cut}), {options.way}: {size / 1e6:,.0f} MB in {row['time_s']:.2f} s, "
            f"create to fsync ({size / row['time_s'] / 1e6:,.0f} MB/s), files made or opened {row['opens']} "
            "times"
        )
        inside("inside-ranks", {"spec": spec, "path": str(path)})
    finally:
        shutil.rmtree(path, ignore_errors=True)


def inside_ranks(told: dict[str, Any]) -> None:
    """Read every level through OpenVisus and compare it with the truth; ends with 1 where one differs."""
    from hyperslab.formats.idx.openvisus import OpenVisusArray

    spec, path = told["spec"], told["path"]
    values, files, differ = open_values(spec["dataset"]), files_of(spec), []
    for level in range(files.bitmask.bits + 1):
        steps = files.bitmask.steps(level)
        samples, equal, started = 0, True, perf_counter()
        opened = OpenVisusArray(path, spec)
        for box in slabs(files.shape, steps, files.itemsize):
            asked = coarse(box, steps)
            there = opened.read(asked)
            samples += there.size
            equal &= bool(np.array_equal(there, selected(values, asked)))
        opened.close()
        differ += [] if equal else [level]
        words = "equal" if equal else "DIFFERS"
        print(
            f"level {level:2}: {samples:13,} samples {words} ({perf_counter() - started:.1f} s)", flush=True
        )
    if differ:
        sys.exit(f"levels {differ} are not what was written")
    print(f"OpenVisus reads all {files.bitmask.bits + 1} levels as they were written")


def slabs(shape: tuple[int, ...], steps: tuple[int, ...], itemsize: int) -> Iterator[Box]:
    """Return boxes that make up the array, of which a level has few bytes each."""
    plane = itemsize * int(np.prod([-(-size // by) for size, by in zip(shape[1:], steps[1:], strict=True)]))
    thick = max(1, SLAB_BYTES // plane) * steps[0]
    return covering(shape, [thick, *shape[1:]])


def main() -> None:
    """Run the command."""
    if sys.argv[1:2] in (["inside-writers"], ["inside-ranks"]):
        (inside_writers if sys.argv[1] == "inside-writers" else inside_ranks)(json.loads(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    faster = commands.add_parser("writers", help="both writers in turn, into the page cache")
    faster.add_argument("--extent", type=int, default=512, help="samples along each of three axes")
    faster.add_argument("--part", type=int, default=64, help="extent of the parts that are written in turn")
    faster.add_argument("--rounds", type=int, default=5, help="how often each is timed")
    faster.set_defaults(run=writers)
    reads = commands.add_parser("ranks", help="ranks write, OpenVisus reads every level")
    reads.add_argument("--extent", type=int, default=1024, help="samples along each of three axes")
    reads.add_argument("--ranks", type=int, default=4, help="MPI ranks")
    reads.add_argument("--way", default="aggregated", help="how they write (docs/idx.md)")
    reads.add_argument("--along", default="x", help="axes along which the array is cut, such as xyz")
    reads.add_argument("--bits-per-block", type=int, default=15, help="samples of a block, as a power of two")
    reads.set_defaults(run=ranks)
    for one in (faster, reads):
        one.add_argument(
            "--directory", type=Path, default=Path("testfiles"), help="where files lie meanwhile"
        )
    options = parser.parse_args()
    options.directory = options.directory.absolute()
    options.directory.mkdir(parents=True, exist_ok=True)
    options.run(options)


if __name__ == "__main__":
    main()
