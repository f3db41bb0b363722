"""What the gateway to an object store costs: requests straight to a store that is started, and through it.

PYTHONPATH=workflow/scripts .venv-releases/object-store/bin/python workflow/scripts/gateway_cost.py

Every cell of a study does the same, five times a size; its report shows that.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from hyperslab.measuring.object_store import control, started
from hyperslab.measuring.object_store.artifact import StoredArtifact
from hyperslab.sites.roots import MARKER, Root


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=50, help="requests of each size, each way, in turn")
    parser.add_argument("--latency-ms", type=float, default=0.0, help="what the gateway adds to each")
    parser.add_argument("--bandwidth", type=int, help="bytes a second that it lets pass")
    parser.add_argument("--start", default="moto", choices=started.STORES, help="the store")
    options = parser.parse_args()
    if options.repeats < 1:
        parser.error("--repeats should be 1 or more")
    if not options.latency_ms >= 0:
        parser.error("--latency-ms should be 0 or more")
    if options.bandwidth is not None and options.bandwidth < 1:
        parser.error("--bandwidth should be 1 or more")
    store = {
        "start": options.start, "endpoint": None, "region": "us-east-1", "bucket": "control",
        "prefix": "control/", "latency_ms": options.latency_ms, "bandwidth": options.bandwidth,
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="hyperslab-gateway-") as directory:
        Path(directory, MARKER).write_text(json.dumps(asdict(Root(store=store))), encoding="utf-8")
        cell = Path(directory, "cell")
        cell.mkdir()
        artifact = StoredArtifact(cell / "data")
        try:
            found = artifact.control(options.repeats)
        except ConnectionError as error:
            sys.exit(f"gateway_cost: {error}")
        finally:
            artifact.stop()
    for name, size in control.SIZES.items():
        if f"straight_{name}_s" not in found:
            why = f"a wait ends after {control.SECONDS} s"
            sys.exit(f"gateway_cost: an object of {size:,} bytes did not come; {why}")
    print("    bytes   straight, ms   the gateway adds, ms")
    for name, size in control.SIZES.items():
        straight, own = (1e3 * found[f"{way}_{name}_s"] for way in ("straight", "gateway"))
        print(f"{size:9,}   {straight:12.2f}   {own:20.2f}")


if __name__ == "__main__":
    main()
