"""Write the test file of one cell and round. Usage: python -m hyperslab.generate --help"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from hyperslab import formats, releases
from hyperslab.companions import remove_companions
from hyperslab.measuring import limits, locks, machine
from hyperslab.sites import roots
from hyperslab.sites.roots import root_of
from hyperslab.values import open_values

# What the writer tells the reader lies beside the test file and goes with it.
NOTE = ".note.json"


def generate(spec: dict[str, Any], path: Path, donor: str | None) -> None:
    """Write `path` (and a note beside it) with the content of `spec`; nothing is left behind on failure."""
    root = root_of(path)
    limits.limit_memory(roots.read(root).memory_mb)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with locks.alone(root):
            began = machine.now()
            started = perf_counter_ns()
            format_ = formats.load(spec["layout"]["format"])
            way = format_.generate(str(path), spec, open_values(spec["dataset"], donor))
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
            note = {
                "generate_s": (perf_counter_ns() - started) / 1e9,
                "writer": way,
                "node": machine.node_name(),
                "began": began,
                "ended": machine.now(),
                "peak_memory_bytes": peak_memory_bytes() + format_.workers_memory_bytes(),
            }
        Path(f"{path}{NOTE}").write_text(json.dumps(note), encoding="utf-8")
    except BaseException:
        remove_test_file(path)
        raise


def remove_test_file(path: Path) -> None:
    """Remove a test file, its note and what belongs to it elsewhere, if they are there."""
    # Ranks may have a file each, named after it.
    for name in (path, Path(f"{path}{NOTE}"), *path.parent.glob(f"{path.name}.part*")):
        with suppress(FileNotFoundError):
            name.unlink()
    remove_companions(path)


def peak_memory_bytes() -> int:
    """The largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def stop_cleanly(test_file: Path, *others: Path) -> None:
    """On SIGTERM (scancel, a time limit) or SIGINT, remove test file, note and `others`, and end at once.

    Not by an exception: one raised in a destructor or a weak reference's callback, of which h5py has many,
    is ignored, and the signal with it.
    """

    def stop(number: int, _: object) -> None:
        remove_test_file(test_file)
        for path in others:
            path.unlink(missing_ok=True)
        os._exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def arguments(description: str) -> argparse.ArgumentParser:
    """The options that writing and measuring share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--specification", required=True, help="the cell's specification as JSON")
    parser.add_argument("--file", required=True, type=Path, help="the test file")
    parser.add_argument("--donor", nargs="?", help="prepared donor (.npy) that fills the array, if any")
    return parser


def one_line(error: BaseException) -> str:
    """An error as the one line that a log needs."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def storage_error(error: BaseException) -> OSError | None:
    """What the file system said, where that is behind an error of h5py's; None where it is not.

    A file that could not be written cannot be closed either, which h5py reports as a RuntimeError: it hides
    the OSError of the write, or comes alone where the library wrote nothing before the close.
    """
    behind: BaseException | None = error
    while behind is not None:
        if isinstance(behind, OSError):
            return behind
        if said := re.search(r"errno = (\d+), error message = '([^']*)'", str(behind)):
            return OSError(int(said[1]), said[2])
        behind = behind.__context__
    return None


def main() -> None:
    """Entry point."""
    options = arguments(__doc__ or "").parse_args()
    stop_cleanly(options.file)
    spec = json.loads(options.specification)
    try:
        releases.enter(spec)
        generate(spec, options.file, options.donor)
    except MemoryError as error:
        sys.exit(f"hyperslab.generate: {options.file}: {one_line(limits.memory_error(error))}")
    except (OSError, formats.Unavailable) as error:
        sys.exit(f"hyperslab.generate: {options.file}: {one_line(error)}")
    except RuntimeError as error:
        if (behind := storage_error(error)) is None:
            raise
        sys.exit(f"hyperslab.generate: {options.file}: {one_line(behind)}")


if __name__ == "__main__":
    main()
