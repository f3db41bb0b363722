"""Copy ragged rows from HDF5's variable-length type to a vector of bytes with offsets and lengths, or back.

python -m hyperslab.convert_rows mine.h5::/spectra new.h5: the rows of one dataset, under the same name in a
new file. Every row is compared with the original before the new file gets its name. docs/ragged.md says how
it looks.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import h5py
from h5py import h5a, h5o, h5t

from hyperslab import ragged
from hyperslab.data.donor_paths import SEPARATOR
from hyperslab.formats.hdf5 import filter_setters
from hyperslab.measuring.syncing import fsync, sync_directory
from hyperslab.rewriting.elements import copy_attribute
from hyperslab.rewriting.memory import UnknownReference, form_of, has_references
from hyperslab.rewriting.rows import ATTRIBUTES
from hyperslab.rewriting.survey import attributes_of, shown

VLEN, OFFSET_VECTOR = "vlen", "offset-vector"
# Filters that may be asked for by a word.
FILTERS: dict[str, Any] = {
    "none": {},
    "gzip": {"compression": "gzip", "compression_opts": 4},
    "lzf": {"compression": "lzf"},
    "zstd": {"compression": 32015, "compression_opts": (3,)},
}


def convert(source: Path, name: str, target: Path, to: str, chunk_bytes: int | None, filters: str) -> str:
    """Write the rows `name` of a file to a new one; returns what was done in a line.

    Raises RaggedError or OSError; nothing is left behind then.
    """
    if filters == "zstd":
        import hdf5plugin  # noqa: F401, which registers the filter

    if target.exists():
        raise ragged.RaggedError(f"{target} is there already; name a new file, or remove it")
    written = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        # Nobody may read it who may not read the original, from its first byte on.
        os.close(os.open(written, os.O_WRONLY | os.O_CREAT, source.stat().st_mode & 0o777 | 0o600))
        with h5py.File(source) as original, h5py.File(written, "w", libver=_bounds(original, name)) as new:
            if not isinstance(original.get(name), h5py.Dataset):
                raise ragged.RaggedError(f"{source} has no dataset {name}")
            given = original[name]
            _check_readable(given)
            attributes = _attributes(given, of_rows=to == VLEN)
            parent = new.require_group(given.name.rpartition("/")[0] or "/")
            own = given.name.rpartition("/")[2]
            if to == VLEN:
                rows = ragged.open(given)
                _check_readable(rows.vector)
                made = ragged.to_vlen(rows, parent, own)
            else:
                rows = ragged.from_vlen(
                    given,
                    lambda dtype: ragged.create(
                        parent,
                        own,
                        dtype,
                        chunk_bytes=chunk_bytes,
                        filters=FILTERS[filters],
                        expected_bytes=original.id.get_filesize(),
                    ),
                )
                made = rows.primary
            for attribute, encoding in attributes:
                found = h5a.open(given.id, attribute)
                copy_attribute(found, made.id, attribute, encoding, found.get_type().copy())
            count, values = len(rows), len(rows.vector)
            rows.close()
        # The original may be removed as soon as this one has its name.
        fsync(written)
        written.replace(target)
        sync_directory(target.parent)
    finally:
        written.unlink(missing_ok=True)
    sizes = f"{source.stat().st_size:,} bytes before, {target.stat().st_size:,} now"
    return f"{target}: {count:,} rows of {values:,} bytes, compared with the original; {sizes}"


def _bounds(original: h5py.File, name: str) -> str | None:
    """Return from which release on the new file is to be read, for h5py; None for all."""
    given = original.get(name)
    # Old headers cannot hold what new ones may: attributes of 64 KiB and more.
    return "v108" if isinstance(given, h5py.Dataset) and h5o.get_info(given.id).hdr.version > 1 else None


def _check_readable(dataset: h5py.Dataset) -> None:
    """Raise RaggedError where a filter is missing; those of hdf5plugin are made known where one is needed."""
    if why := filter_setters.missing(dataset.id):
        raise ragged.RaggedError(f"{dataset.file.filename}: {dataset.name} {why}")


def _attributes(given: h5py.Dataset, of_rows: bool) -> list[tuple[bytes, int]]:
    """Return name and character set of a user's own attributes, of rows those that are not of the convention.

    Raises RaggedError for one that another file cannot have, or that rows have for themselves.
    """
    own = [one for one in attributes_of(given.id) if one[0] not in ATTRIBUTES or not of_rows]
    place = f"{given.file.filename}: {given.name}"
    if taken := [shown(name) for name, _ in own if name in ATTRIBUTES]:
        raise ragged.RaggedError(
            f"{place}: rows have an attribute {taken[0]} of their own; rename yours first"
        )
    for name, _ in own:
        if _holds_references(h5a.open(given.id, name).get_type()):
            raise ragged.RaggedError(
                f"{place}, attribute {shown(name)} holds references, which lead nowhere in a new file; "
                "python -m hyperslab.rewrite keeps them, and all else of the file"
            )
    return own


def _holds_references(datatype: h5t.TypeID) -> bool:
    """Return whether values of this type, or parts of them, lead to something else in their file."""
    try:
        return has_references(form_of(datatype))
    except UnknownReference:
        return True


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", help=f"the rows, as FILE{SEPARATOR}DATASET")
    parser.add_argument("target", type=Path, help="the new file")
    parser.add_argument(
        "--to", choices=(OFFSET_VECTOR, VLEN), default=OFFSET_VECTOR, help="what the rows become"
    )
    parser.add_argument(
        "--chunk-bytes", type=int, help="bytes of a chunk of the vector; 8 MiB, with a filter 1 MiB, or fewer"
    )
    parser.add_argument(
        "--filter", choices=FILTERS, default="none", help="what the vector is compressed with"
    )
    options = parser.parse_args()
    file, separator, name = options.rows.partition(SEPARATOR)
    if not separator:
        parser.error(f"{options.rows}: name the rows as FILE{SEPARATOR}DATASET")
    if options.to == VLEN and (options.filter != "none" or options.chunk_bytes is not None):
        why = "no filter reaches HDF5's variable-length rows"
        parser.error(f"--filter and --chunk-bytes are of the vector: {why}")
    try:
        print(convert(Path(file), name, options.target, options.to, options.chunk_bytes, options.filter))
    except (OSError, ragged.RaggedError) as error:
        sys.exit(f"hyperslab.convert_rows: {' '.join(str(error).split())}")


if __name__ == "__main__":
    main()
