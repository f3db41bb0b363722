"""The same change of layout by Hyperslab and by h5repack: are the results equal, and how long does each take?

    compare_with_h5repack.py mine.h5 /counts '{chunks: [4, 4, all], filters: [{gzip: 4}]}'
    compare_with_h5repack.py mine.h5 /counts '{chunks: [4, 4, all], filters: [{gzip: 4}]}' --tile 2e9

Needs h5repack and h5diff (Debian: hdf5-tools). Each round runs both, in alternating order. Hyperslab's time
includes its comparison with the original; h5repack makes none, so h5diff's time is shown beside it, and the
ratio of the one to the sum of the others: the mean over the rounds on the log scale, with a 95 % interval
(t) from three rounds on. --tile repeats a dataset in chunks along its first axis, in a file of its own. Exit
status 1 where chunks, filters, stored bytes or values of the results differ; what else differs is printed.
"""

import argparse
import math
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

TOOLS = ("h5repack", "h5diff")
# name -> how h5repack writes the filter
FILTERS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "gzip": lambda options: f"GZIP={options.get('level', 4)}",
    "shuffle": lambda _: "SHUF",
    "fletcher32": lambda _: "FLET",
}


def repack_command(
    original: Path, new: Path, dataset: str, chunk: tuple[int, ...] | None, layout: Mapping[str, Any]
) -> list[str]:
    """Return the command of h5repack for one dataset;
    `chunk` is its resolved shape. KeyError for another filter.
    """
    storage = "CONTI" if chunk is None else f"CHUNK={'x'.join(map(str, chunk))}"
    wanted = [FILTERS[options["name"]](options) for options in layout["filters"]] or ["NONE"]
    filters = [part for each in wanted for part in ("-f", f"{dataset}:{each}")]
    return ["h5repack", "-l", f"{dataset}:{storage}", *filters, str(original), str(new)]


def rewrite_command(original: Path, new: Path, dataset: str, layout: str) -> list[str]:
    """Return the command of Hyperslab for the same change."""
    called = [sys.executable, "-m", "hyperslab.rewrite", str(original), str(new), "--overwrite"]
    return [*called, "--dataset", dataset, "--layout", layout]


def seconds(command: list[str]) -> float:
    """Return how long a command takes; SystemExit with what it said where it fails."""
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{shlex.join(command)}: {done.stdout}{done.stderr}")
    return time.perf_counter() - started


def storage_of(path: Path, dataset: str) -> tuple[Any, ...]:
    """Return the chunk shape, filters and stored bytes of a dataset."""
    import h5py

    from hyperslab.rewriting.storage import storage

    with h5py.File(path, "r") as file:
        found = storage(file[dataset].id)
        filters = [(code, parameters) for code, _, parameters in found["filters"]]
        return found["chunks"], filters, file[dataset].id.get_storage_size()


def tiled(original: Path, dataset: str, size: float, new: Path) -> Path:
    """Write `new`, in which the dataset is repeated along its first axis, as often as fits `size` bytes.

    Its stored chunks are repeated, not their values; SystemExit where they do not fit each other.
    """
    import h5py
    from h5py import h5d, h5s

    with h5py.File(original, "r") as source, h5py.File(new, "w") as file:
        old = source[dataset]
        if not old.chunks or old.shape[0] % old.chunks[0]:
            sys.exit(f"{original}: {dataset} has no whole chunks along its first axis, which --tile repeats")
        times = max(1, int(size // old.nbytes))
        space = h5s.create_simple((times * old.shape[0], *old.shape[1:]))
        if (above := dataset.strip("/").rpartition("/")[0]) and above not in file:
            file.create_group(above)
        path, creation = dataset.encode(), old.id.get_create_plist()
        made = h5d.create(file.id, path, old.id.get_type().copy(), space, creation)
        places: list[tuple[int, ...]] = []
        old.id.chunk_iter(lambda chunk: places.append(chunk.chunk_offset))
        for start in range(0, times * old.shape[0], old.shape[0]):
            for first, *others in places:
                mask, content = old.id.read_direct_chunk((first, *others))
                made.write_direct_chunk((start + first, *others), content, mask)
    return new


def ratio_of(times: Mapping[str, Sequence[float]]) -> str:
    """Return the ratio of the first to the sum of the others, round by round, in words."""
    import numpy as np

    from hyperslab.results.comparisons import of_rounds

    first, *others = (np.array(taken) for taken in times.values())
    found = of_rounds(np.log(first / sum(others)))
    low, high = (float(np.exp(end[0])) for end in found.interval())
    interval = "" if math.isnan(low) else f" ({low:.3f} to {high:.3f})"
    return f"{float(np.exp(found.value[0])):.3f}{interval}"


def main() -> None:
    """Run the command."""
    from hyperslab.rewriting.asking import read_layout
    from hyperslab.rewriting.differences import differences
    from hyperslab.text import listing

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("original", type=Path)
    parser.add_argument("dataset", help="the dataset that gets the layout")
    parser.add_argument("layout", help="as for hyperslab.rewrite")
    parser.add_argument("--directory", type=Path, help="where to write, default: for temporary files")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tile", type=float, metavar="BYTES", help="repeat the dataset up to this size")
    options = parser.parse_args()
    if absent := [tool for tool in TOOLS if shutil.which(tool) is None]:
        parser.error(f"needs {listing(absent)}, which cannot be found; Debian: hdf5-tools")
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        ours, theirs = Path(directory) / "hyperslab.h5", Path(directory) / "h5repack.h5"
        original = options.original
        if options.tile:
            original = tiled(original, options.dataset, options.tile, Path(directory) / "original.h5")
        rewriting = rewrite_command(original, ours, options.dataset, options.layout)
        seconds(rewriting)
        chunk = storage_of(ours, options.dataset)[0]
        layout = read_layout(options.layout)
        try:
            repacking = repack_command(original, theirs, options.dataset, chunk, layout)
        except KeyError as error:
            sys.exit(f"h5repack is not asked for the filter {error}; it has {', '.join(FILTERS)}")
        times: dict[str, list[float]] = {"hyperslab.rewrite": [], "h5repack": [], "h5diff": []}
        for number in range(options.rounds):
            pair = [("hyperslab.rewrite", rewriting), ("h5repack", repacking)]
            for name, command in pair if number % 2 else reversed(pair):
                times[name].append(seconds(command))
            times["h5diff"].append(seconds(["h5diff", str(original), str(theirs)]))
            last = ", ".join(f"{name} {taken[-1]:.2f} s" for name, taken in times.items())
            print(f"round {number + 1} of {options.rounds}: {last}", file=sys.stderr, flush=True)
        for name, taken in times.items():
            spread = f"{min(taken):.2f} to {max(taken):.2f}"
            print(f"{name:18} {statistics.median(taken):8.2f} s (median of {len(taken)}; {spread})")
        print(f"hyperslab.rewrite over both others: {ratio_of(times)}")
        before, *after = (f"{path.stat().st_size:,}" for path in (original, ours, theirs))
        print(f"sizes: {before} bytes before, {' and '.join(after)} bytes after")
        same = storage_of(ours, options.dataset) == storage_of(theirs, options.dataset)
        print(f"chunks, filters and stored bytes of {options.dataset}: {'equal' if same else 'different'}")
        found = list(differences(ours, theirs))
        print("\n".join(["in h5repack's file:", *found] if found else ["no other differences"]))
    sys.exit(not same or any(line.endswith("values differ") for line in found))


if __name__ == "__main__":
    main()
