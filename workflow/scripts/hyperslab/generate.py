"""Write the test file of one cell and round. Usage: python -m hyperslab.generate --help"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from hyperslab import formats
from hyperslab.data.values import open_values
from hyperslab.formats.hdf5 import release
from hyperslab.measuring import limits, locks, machine
from hyperslab.measuring.artifact import NOTE, remove_test_file, stop_cleanly
from hyperslab.measuring.process import arguments, one_line, peak_memory_bytes, storage_error
from hyperslab.sites import roots
from hyperslab.sites.roots import root_of


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


def main() -> None:
    """Entry point."""
    options = arguments(__doc__ or "").parse_args()
    stop_cleanly(options.file)
    spec = json.loads(options.specification)
    try:
        release.enter(spec)
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
