"""The process of a rank that writes through OpenVisus: python -m … JSON, started by by_openvisus.py.

It is given the values of its box, in array terms, then lines with what to do; each is answered by one byte,
or by what went wrong.
"""

from __future__ import annotations

import json
import os
import sys

import numpy as np

from hyperslab.data.selections import Box, disk_order, inverse_of
from hyperslab.formats.idx import openvisus
from hyperslab.formats.idx.places import files_of
from hyperslab.layouts.idx_files import UNFINISHED

# The answer where all went well; what went wrong has so many bytes at most, which a pipe takes whole.
DONE, MOST_ANSWERED = b".", 4096


def main() -> None:
    """Run until there is nothing more to do."""
    told = json.loads(sys.argv[1])
    path, spec, answers = told["path"], told["spec"], told["answers"]
    box, dtype = Box(tuple(told["origin"]), tuple(told["extent"])), np.dtype(spec["dataset"]["dtype"])
    openvisus.library()
    size = int(np.prod(box.extent)) * dtype.itemsize
    given = sys.stdin.buffer.read(size)
    if len(given) < size:
        sys.exit("not all values came")
    # As they lie on disk, before any stopwatch.
    order = disk_order(spec)
    turned = np.ascontiguousarray(np.frombuffer(given, dtype).reshape(box.extent).transpose(order))
    del given
    values = turned.transpose(inverse_of(order))
    os.write(answers, DONE)
    try:
        for line in sys.stdin.buffer:
            if line == b"create\n":
                openvisus.create(path, files_of(spec), dtype.name)
            else:
                opened = openvisus.OpenVisusArray(path, spec, UNFINISHED)
                opened.write(box, values)
                opened.close()
            os.write(answers, DONE)
    except OSError as error:
        os.write(answers, str(error).encode(errors="replace")[:MOST_ANSWERED])
        sys.exit(1)


if __name__ == "__main__":
    main()
