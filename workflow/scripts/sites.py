#!/usr/bin/env python3
"""Show the sites of a run as this machine sees them.

They are those of config/sites.local.yaml, if you made one, else of config/sites.yaml, unless another file is
named by config/config.yaml.

Type, mount options, block size, free space, read-ahead, striping and throttle of each file system, and
whether it can be measured from here. Nothing is measured, made or written.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hyperslab.planning.sites_table import tables
from hyperslab.sites.configuration import configured_file, load_sites
from hyperslab.validation.errors import ConfigurationError


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, help="another file of sites")
    options = parser.parse_args()
    try:
        print(tables(load_sites(options.file or configured_file(Path(__file__).parents[2]))))
    except ConfigurationError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
