"""Read a donor once and keep what a study uses of it as .npy. Usage: python -m hyperslab.donors --help"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from hyperslab.formats import donor_rows
from hyperslab.formats.donor_files import prepare
from hyperslab.formats.donor_opening import DonorError


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", required=True, help="the dataset's specification as JSON")
    parser.add_argument("--output", required=True, type=Path, help="the .npy to write")
    options = parser.parse_args()
    try:
        spec = json.loads(options.dataset)
        (donor_rows.prepare if spec.get("rows") else prepare)(spec, options.output)
    except (DonorError, OSError) as error:
        options.output.unlink(missing_ok=True)
        sys.exit(f"hyperslab.donors: {error}")


if __name__ == "__main__":
    main()
