#!/usr/bin/env python3
"""Show the sites of config/sites.yaml (or of your own config/sites.local.yaml) as this machine sees them.

Type, mount options, block size, free space, read-ahead, striping and throttle of each file system, and
whether it can be measured from here. Nothing is measured, made or written.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hyperslab.planning.sites_table import tables
from hyperslab.sites.configuration import load_sites, usual_file
from hyperslab.validation.errors import ConfigurationError


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, help="another file of sites")
    options = parser.parse_args()
    file = options.file or usual_file(Path(__file__).parents[2])
    try:
        print(tables(load_sites(file)))
    except ConfigurationError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
