"""Carry results between machines.

pack.py pack quick                       results/quick into packs/quick.zip
pack.py unpack packs/quick.zip           its records into results/, each checked
"""

import argparse
import sys
from pathlib import Path

from hyperslab.results.packs import PackError, pack, unpack


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    packing = verbs.add_parser("pack", help="results of one study into one small file")
    packing.add_argument("study", help="name of the study")
    packing.add_argument("--output", type=Path, help="the pack to write (default: packs/STUDY.zip)")
    unpacking = verbs.add_parser("unpack", help="the records of a pack into results/, each checked")
    unpacking.add_argument("file", type=Path, help="the pack to read")
    for verb in (packing, unpacking):
        verb.add_argument(
            "--results", type=Path, default=Path("results"), help="the results folder (default: results)"
        )
    options = parser.parse_args()
    try:
        if options.verb == "pack":
            output = options.output or Path("packs") / f"{options.study}.zip"
            count = pack(options.study, output, options.results)
            print(f"{output}: {count} records, {output.stat().st_size / 1e6:.2f} MB")
        else:
            print(f"{options.results}: {unpack(options.file, options.results)} records from {options.file}")
    except PackError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
