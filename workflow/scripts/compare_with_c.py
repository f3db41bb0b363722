"""The same rows written and read through HDF5's C interface and through h5py: what h5py costs for each row.

    compare_with_c.py --rows 4096 --elements 4096 --call 1

Compiles rows_benchmark.c with h5cc, or h5pcc, of the system's HDF5, whose release is printed beside that of
h5py: where they differ, so may their times. Each round runs both, in alternating order, in processes of their
own, on files that are in the page cache. Exit status 1 where one of them does not say how long it took.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

SOURCE = Path(__file__).with_name("rows_benchmark.c")
COMPILERS = ("h5cc", "h5pcc", "h5pcc.mpich", "h5pcc.openmpi")
# As in rows_benchmark.c.
MOST_ELEMENTS = 16 * 2**20
CONTIGUOUS: dict[str, int | None] = {"chunk_bytes": None, "row_chunk": None}
CHUNKS: dict[str, dict[str, int | None]] = {"offset-vector": {"chunk_bytes": 2**23, "row_chunk": 4096}}
WAYS = ("vlen", "flattened", "offset-vector")


def compiled(directory: Path) -> Path:
    """Return the program in C, compiled; raises SystemExit where there is no compiler of HDF5."""
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        sys.exit(f"none of {', '.join(COMPILERS)} is here; Debian: apt-get install libhdf5-dev")
    program = directory / "rows_benchmark"
    command = [compiler, "-O2", "-Wall", "-o", str(program), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=directory, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return program


def release_of(compiler: str) -> str:
    """Return the release of HDF5 that a compiler's wrapper names."""
    text = subprocess.run([compiler, "-showconfig"], capture_output=True, text=True, check=False).stdout
    lines = [line.partition(":")[2].strip() for line in text.splitlines() if "HDF5 Version" in line]
    return lines[0] if lines else "unknown"


def timed(way: str, action: str, path: str, rows: int, elements: int, call: int) -> tuple[float, float]:
    """Write or read the rows through h5py, as cases of rows do.

    Returns seconds from the first call to the close of the file, and seconds of the calls.
    """
    from hyperslab import formats
    from hyperslab.data.rows import open_rows
    from hyperslab.formats.row_seam import RowsFormat

    dataset: Any = {
        "axes": ["row"], "shape": [rows], "dtype": "int32", "fill": "mixed",
        "rows": {"lengths": "constant", "longest": elements},
    }  # fmt: skip
    layout: Any = {
        "format": "hdf5-rows", "storage": way, "order": ["row"], "filters": [], **CHUNKS.get(way, CONTIGUOUS),
        "settings": {"libver": "latest"},
    }  # fmt: skip
    spec: Any = {"dataset": dataset, "layout": layout}
    found: Any = formats.load("hdf5-rows")
    format_: RowsFormat = found
    content, calls = open_rows(dataset), 0.0
    writing = action == "write"
    opened = format_.create(path, spec, [content.lengths], False) if writing else format_.open(path, spec)
    for first, stop in content.blocks(call):
        block = content.run(first, stop)
        do = opened.writer(0, first, block) if writing else opened.reader(0, range(first, stop))
        began = perf_counter()
        read = do()
        calls += perf_counter() - began
        if not writing and opened.block(read).values.tobytes() != block.values.tobytes():
            sys.exit(f"{path}: rows {first} to {stop} differ from what was written")
    began = perf_counter()
    opened.close()
    return calls + perf_counter() - began, calls


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=4096, help="how many")
    parser.add_argument("--elements", type=int, default=4096, help="int32 values of each")
    parser.add_argument("--call", type=int, default=1, help="rows that one call writes or reads")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", type=Path, help="where to write, default: for temporary files")
    parser.add_argument("--h5py", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    size = (options.rows, options.elements, options.call)
    if options.h5py:
        way, action, path = options.h5py
        span, calls = timed(way, action, path, *size)
        print(f"{span:.9f} {calls:.9f}")
        return
    if min(size) < 1 or options.call * options.elements > MOST_ELEMENTS:
        parser.error(f"--call times --elements should be 1 to {MOST_ELEMENTS:,}")
    sys.exit(compare(size, options.rounds, options.directory))


def compare(size: tuple[int, int, int], rounds: int, directory: Path | None) -> int:
    """Print medians of both, and of their ratio, for each way and action; returns the exit status."""
    import h5py

    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), "")
    rows, elements, call = size
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        program = compiled(Path(folder))
        print(
            f"{rows:,} rows of {elements:,} int32, {call:,} a call; HDF5 {release_of(compiler)} through C,",
            end=" ",
        )
        print(f"HDF5 {h5py.version.hdf5_version} through h5py {h5py.version.version}; medians of {rounds}")
        print(f"{'':21}{'C':>22}{'h5py':>22}{'h5py to C':>12}{'h5py more a row':>18}")
        own = [
            sys.executable,
            __file__,
            "--rows",
            str(rows),
            "--elements",
            str(elements),
            "--call",
            str(call),
        ]
        for way in WAYS:
            for action in ("write", "read"):
                taken: dict[str, list[float]] = {"C": [], "h5py": []}
                for number in range(rounds):
                    for name in ("C", "h5py") if number % 2 else ("h5py", "C"):
                        path = f"{folder}/{way}-{name}.h5"
                        asked = [way, action, path]
                        words = (
                            [str(program), *asked, *map(str, size)]
                            if name == "C"
                            else [*own, "--h5py", *asked]
                        )
                        done = subprocess.run(words, capture_output=True, text=True, check=False)
                        if done.returncode:
                            print(f"{' '.join(words)}: {done.stdout}{done.stderr}", file=sys.stderr)
                            return 1
                        taken[name].append(float(done.stdout.split()[0]))
                c, ours = (statistics.median(taken[name]) for name in ("C", "h5py"))
                spans = (
                    f"{middle:.4f} s ({min(t):.4f}…)"
                    for middle, t in zip((c, ours), taken.values(), strict=True)
                )
                columns = "".join(f"{span:>22}" for span in spans)
                print(
                    f"{way + ', ' + action:21}{columns}{ours / c:>11.2f}x{1e6 * (ours - c) / rows:>15.2f} µs"
                )
    return 0


if __name__ == "__main__":
    main()
