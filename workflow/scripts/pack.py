"""Carry results between machines.

pack.py pack quick                       study quick and its records into packs/quick.tar.xz
pack.py unpack packs/quick.tar.xz        its records into results/, each checked, its study if it is new here

What was done is said on standard error; unpack prints the study's name.
"""

import argparse
import sys
from pathlib import Path

from hyperslab.planning import snakemake_patches
from hyperslab.results.packing import pack, unpack
from hyperslab.results.packs import SUFFIX, PackError
from hyperslab.text import count


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    packing = verbs.add_parser("pack", help="a study and its records into one small file")
    packing.add_argument("study", help="name of the study")
    packing.add_argument("--output", type=Path, help="the pack to write (default: packs/STUDY.tar.xz)")
    unpacking = verbs.add_parser("unpack", help="the records of a pack into results/, each checked")
    unpacking.add_argument("file", type=Path, help="the pack to read")
    for verb in (packing, unpacking):
        verb.add_argument(
            "--results", type=Path, default=Path("results"), help="the results folder (default: results)"
        )
        verb.add_argument(
            "--studies", type=Path, default=Path("config/studies"), help="where studies lie (config/studies)"
        )
    options = parser.parse_args()
    try:
        if options.verb == "pack":
            output = options.output or Path("packs") / f"{options.study}{SUFFIX}"
            packed = pack(options.study, output, options.results, options.studies)
            said = [f"{output}: {count(packed, 'record')}, {output.stat().st_size / 1e6:.2f} MB"]
        else:
            done = unpack(options.file, options.results, options.studies, snakemake_patches.forgetting())
            said = [f"{options.results}: {count(done.records, 'record')} from {options.file}", *done.notes]
            print(done.study)
        print("\n".join(said), file=sys.stderr)
    except PackError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
