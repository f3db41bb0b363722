"""Rewrite an HDF5 file so that one dataset gets another layout and everything else stays as it is.

Or write that dataset alone, with its attributes, as a Zarr array.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hyperslab.measuring.syncing import fsync
from hyperslab.rewriting import RewriteError, recommended
from hyperslab.rewriting.forks import beside
from hyperslab.rewriting.progress import Progress
from hyperslab.rewriting.supervise import aside_of, made_whole, partial_of
from hyperslab.text import megabytes

MIB = 2**20
# The format of a layout that makes a directory.
ZARR = "zarr"
MOST_LINES = 20
TEACHING = """\
examples:
  python -m hyperslab.rewrite mine.h5 new.h5 --dataset /counts \\
      --layout '{chunks: [16, 16, all], filters: [shuffle, {gzip: 4}]}'
  python -m hyperslab.rewrite mine.h5 new.h5 --dataset /counts --layout '{}'      contiguous
  python -m hyperslab.rewrite mine.h5 new.h5 --dataset /hits \\
      --layout '{format: hdf5-rows, storage: offset-vector, filters: [{zstd: 3}]}'     rows of variable length
  python -m hyperslab.rewrite mine.h5 new.zarr --dataset /counts \\
      --layout '{format: zarr, chunks: [16, 16, 256], shards: [64, 64, 8192], codecs: [{zstd: 3}]}'
  python -m hyperslab.rewrite --verify mine.h5 new.h5 --dataset /counts

A layout is written as in a study: an extent or `all` for each axis, or `auto` or `unidata`; filters in their
order. All else in the file is kept: other datasets with their own layouts, attributes, links of every kind,
dimension scales, references, datatypes, fill values, orders of creation, the user block.

Other files, which external links, virtual datasets and external storage name, stay where they are. In a new
file in another folder relative names are changed so that they lead there, which is said. --folder names the
folder in which the new file is to lie in the end; where that is the original's, the names are kept.
--materialise has the new file hold the values of virtual datasets and of external storage itself; external
links still name their files.

Zarr holds the dataset alone, with its attributes but for those of dimension scales, which are named.

The new file is made as NEW.hyperslab-partial, synchronised, read back and compared with the original value
by value (the values of DATASET by digests of 128 bits of what was read of the original), and only then moved
to its place. --verify compares two files without digests. Up to four processes share the work where that is
faster. The original is opened for reading alone. Ctrl-C or SIGTERM leave no trace; after SIGKILL a
NEW.hyperslab-partial remains, which the next run overwrites.
"""


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _read_layout(text: str) -> dict[str, Any]:
    # Its models take a while to be made, and the workflow has checked its layouts.
    from hyperslab.rewriting.asking import read_layout

    return read_layout(text)


def _choose(options: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Return the layout that the command line asks for; raises RewriteError or ChildProcessError."""
    if options.layout is not None:
        wait = beside(lambda: _read_layout(options.layout))
        # What copies takes as long to be imported.
        from hyperslab.rewriting import copying, differences  # noqa: F401

        return wait()
    layouts: Mapping[str, Any] = json.loads(options.layouts)
    if options.recommendation:
        text = options.recommendation.read_text(encoding="utf-8")
        name, said = recommended.picked(
            json.loads(text), options.site or None, options.recommendation, layouts
        )
        if said:
            progress.say(said)
    else:
        (name,) = layouts
    return {**layouts[name], "name": name}


def rewrite(
    original: Path,
    partial: Path,
    dataset: str,
    layout: Mapping[str, Any],
    budget: int,
    progress: Progress,
    folder: Path | None = None,
    materialise: bool = False,
) -> None:
    """Write `partial`, the file `original` with `dataset` in another layout, and compare the two.

    `layout` has `chunks` (extents, "all", "auto", or a mapping for Unidata's formula; None for contiguous),
    `filters` and `settings`, as rewriting.asking makes it. `budget` bounds the memory for values, in bytes.
    Names of other files lead there from `folder` (default: where `partial` lies), unless `materialise` takes
    in the values of virtual datasets and of external storage. Raises RewriteError for what cannot be
    rewritten and for any difference, OSError and RuntimeError for what HDF5 refuses.
    """
    from hyperslab.formats.hdf5.filter_setters import of_plugins
    from hyperslab.rewriting import taking_in
    from hyperslab.rewriting.copying import Copy
    from hyperslab.rewriting.differences import differences
    from hyperslab.rewriting.rows_copy import RowsCopy

    rows = dataset if layout.get("rows") else None
    before = os.stat(original)
    relaid = [dataset, *(taking_in.paths(original) if materialise else ())]
    make = RowsCopy if rows else Copy
    copy = make(original, partial, dataset, layout, budget, progress, folder or partial.parent, materialise)
    digests = copy.make()
    # What it still holds of the original would keep that open.
    del copy
    _copy_user_block(original, partial)
    fsync(partial)
    found = list(_first(differences(original, partial, relaid, budget, progress, folder, rows, digests)))
    after = os.stat(original)
    if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size):
        raise RewriteError("was changed while it was read; run this again when nothing writes it")
    if found:
        raise RewriteError(f"the new file is not the same: {'; '.join(found)}")
    if second := layout.get("second"):
        from hyperslab.rewriting import second_copy

        second_copy.add(partial, dataset, {"others": [], **second}, budget, progress)
    sizes = before.st_size, os.stat(partial).st_size
    progress.say(f"compared and equal; {megabytes(sizes[0])} became {megabytes(sizes[1])}")
    if needed := of_plugins([*layout["filters"], *(second or {}).get("filters", [])]):
        progress.say(f"{', '.join(needed)}: needs hdf5plugin, or HDF5's plug-ins, wherever it is read")


def _copy_user_block(original: Path, partial: Path) -> None:
    """Copy the bytes before HDF5's own, for which HDF5 only leaves room."""
    import h5py

    with h5py.File(original, "r") as file:
        size = file.userblock_size
    if size:
        with original.open("rb") as source, partial.open("r+b") as new:
            new.write(source.read(size))


def _first(lines: Iterable[str]) -> Iterable[str]:
    for number, line in enumerate(lines):
        if number == MOST_LINES:
            yield "and more"
            return
        yield line


def _verify(options: argparse.Namespace) -> int:
    """Print the differences; 1 where there are any."""
    files, budget, found = (options.original, options.new), options.budget * MIB, False
    if options.new.is_dir():
        from hyperslab.rewriting import zarr_copy

        if not options.dataset:
            raise RewriteError(f"{options.new}: --dataset says which dataset it holds")
        lines = zarr_copy.differences(*files, options.dataset, budget, Progress())
    else:
        from hyperslab.rewriting import taking_in
        from hyperslab.rewriting.differences import differences
        from hyperslab.rewriting.rows import holds_rows

        rows = options.dataset if options.dataset and holds_rows(options.original, options.dataset) else None
        relaid = [options.dataset] if options.dataset else []
        relaid += taking_in.paths(options.original) if options.materialise else []
        lines = differences(*files, relaid, budget, Progress(), options.folder, rows)
    for line in lines:
        found = True
        print(line)
    if not found:
        print(f"{options.original} and {options.new} hold the same")
    return int(found)


def _is_within(file: Path, place: Path) -> bool:
    """Return whether a file is what lies at a place, or in a directory there."""
    return place.samefile(file) or file.resolve().is_relative_to(place.resolve())


def _check_replaceable(there: Path, original: Path, directory: bool) -> None:
    """Raise RewriteError for a directory that is no earlier result, and so never removed."""
    if not directory:
        raise RewriteError(f"{there} is a directory; name a file in it, such as {there / 'new.h5'}")
    try:
        described = json.loads((there / "zarr.json").read_text(encoding="utf-8"))
        array = described["node_type"] == "array"
    except (OSError, ValueError, KeyError, TypeError):
        array = False
    if not array or _is_within(original, there):
        raise RewriteError(f"{there} is a directory and no Zarr array; name another, which need not exist")


def _rewrite(options: argparse.Namespace, progress: Progress) -> int:
    layout = _choose(options, progress)
    if not options.original.exists():
        raise RewriteError(f"{options.original}: there is no such file")
    if options.new.exists() and options.new.samefile(options.original):
        raise RewriteError(f"{options.original}: would be overwritten; name another file to write")
    for left in (partial_of(options.new), aside_of(options.new)):
        if left.exists() and _is_within(options.original, left):
            raise RewriteError(
                f"{options.original}: {left} is where {options.new} is made; name another file to write"
            )
    directory = layout.get("format") == ZARR
    if options.new.is_dir():
        _check_replaceable(options.new, options.original, directory)
    elif directory and os.path.lexists(options.new):
        raise RewriteError(f"{options.new} is no directory, as a Zarr array is; name another, or remove it")
    if options.new.exists() and not options.overwrite:
        raise RewriteError(f"{options.new} exists; name another file, or give --overwrite")

    def work(partial: Path) -> None:
        what = (options.original, partial, options.dataset, layout, options.budget * MIB, progress)
        try:
            if directory:
                from hyperslab.rewriting import zarr_copy

                zarr_copy.copy(*what)
            else:
                rewrite(*what, options.folder, options.materialise)
        except Exception as error:  # Whatever it is, nobody else says so.
            progress.say(f"{options.original}: {_one_line(error)}")
            raise

    if "name" in layout:
        progress.say(f"{options.new}: layout {layout['name']}")
    return made_whole(options.new, work, directory, options.original.stat().st_mode & 0o777)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hyperslab.rewrite",
        description=__doc__,
        epilog=TEACHING,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("original", type=Path, help="the file to rewrite; it is not modified")
    parser.add_argument("new", type=Path, help="the file to write")
    parser.add_argument("--dataset", help="the dataset that gets the layout, such as /group/values")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--layout", metavar="YAML", help="the layout, as a study says it")
    which.add_argument("--layouts", metavar="JSON", help="layouts by name, as the workflow passes them")
    which.add_argument("--verify", action="store_true", help="write nothing, compare the two files")
    parser.add_argument(
        "--recommendation", nargs="?", type=Path, metavar="JSON", help="which of --layouts is recommended"
    )
    parser.add_argument("--site", nargs="?", help="the site whose recommendation counts")
    parser.add_argument(
        "--budget",
        type=int,
        default=256,
        metavar="MIB",
        help="memory for values, in MiB, of all processes together (default: 256)",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        help="where the new file is to lie in the end (default: where it is written)",
    )
    parser.add_argument(
        "--materialise",
        action="store_true",
        help="take in the values that virtual datasets and external storage have in other files",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the file to write if it exists")
    parser.add_argument("--log", type=Path, help="a file that gets everything that is said, too")
    return parser


def main() -> None:
    """Run the command."""
    # Nothing here computes with BLAS, whose idle threads are lost where a process is forked.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Read by HDF5 when it is imported. It would insist on a lock of its own on the partial file, which this
    # process has; who wants none, as some file systems need it, has none.
    if os.environ.get("HDF5_USE_FILE_LOCKING", "").upper() not in ("FALSE", "0"):
        os.environ.pop("HDF5_USE_FILE_LOCKING", None)
    parser = _parser()
    options = parser.parse_args()
    if not options.verify and (options.layout is None) == (options.layouts is None):
        parser.error("--layout says which layout to write (or --verify compares)")
    if not options.verify and options.dataset is None:
        parser.error("--dataset says which dataset gets the layout")
    if options.budget < 1:
        parser.error("--budget needs at least 1 MiB")
    with ExitStack() as stack:
        log = stack.enter_context(options.log.open("w", encoding="utf-8")) if options.log else None
        progress = Progress(log)
        try:
            status = _verify(options) if options.verify else _rewrite(options, progress)
        except (RewriteError, OSError, RuntimeError) as error:
            progress.say(_one_line(error))
            status = 1
    sys.exit(status)


if __name__ == "__main__":
    main()
