"""What the gateway to an object store costs: the same requests to moto itself and through it.

.venv-releases/object-store/bin/python workflow/scripts/gateway_cost.py [--repeats N] [--latency-ms MS]
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

SIZES = (2**10, 2**16, 2**20, 2**24)
BUCKET, KEY = "control", "of-the-control"
# Moto does not look at signatures; the gateway looks whose a request is.
SIGNED = {"Authorization": f"AWS4-HMAC-SHA256 Credential={KEY}/20260101/us-east-1/s3/aws4_request"}
PACKAGE = str(Path(__file__).parent)


def started(module: str) -> subprocess.Popen[str]:
    """Return a process of the module, with pipes, which ends with its input."""
    environment = {
        **os.environ,
        "PYTHONPATH": PACKAGE,
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
    }
    return subprocess.Popen(
        [sys.executable, "-m", f"hyperslab.measuring.object_store.{module}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def asked(port: int, method: str, path: str, body: bytes | None = None) -> Callable[[], float]:
    """Return a request over a connection that stays open: it gives the seconds to the last byte."""
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def ask() -> float:
        began = perf_counter()
        connection.request(method, path, body, SIGNED)
        answer = connection.getresponse()
        answer.read()
        if answer.status >= 300:
            raise OSError(f"{method} {path}: status {answer.status}")
        return perf_counter() - began

    return ask


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=50, help="requests of each size, in turn")
    parser.add_argument("--latency-ms", type=float, default=0.0, help="what the gateway adds to each")
    options = parser.parse_args()
    store, gateway = started("moto_server"), started("gateway")
    try:
        assert store.stdout and gateway.stdin and gateway.stdout
        port = int(store.stdout.readline())
        asked(port, "PUT", f"/{BUCKET}")()
        task = {
            "parent": os.getpid(), "start": None, "endpoint": f"http://127.0.0.1:{port}",
            "region": "us-east-1", "bucket": BUCKET, "prefix": "p/", "key": KEY,
            "latency_ms": options.latency_ms, "bandwidth": None,
        }  # fmt: skip
        gateway.stdin.write(json.dumps(task) + "\n")
        gateway.stdin.flush()
        through = json.loads(gateway.stdout.readline())["port"]
        print("    bytes   direct, ms   gateway, ms   difference, ms   gateway, MB/s")
        for size in SIZES:
            path = f"/{BUCKET}/p/{size}"
            asked(through, "PUT", path, os.urandom(size))()
            ways = asked(port, "GET", path), asked(through, "GET", path)
            pairs = [(ways[0](), ways[1]()) for _ in range(options.repeats)]
            direct, passed = (statistics.median(times) * 1e3 for times in zip(*pairs, strict=True))
            rate = size / passed / 1e3
            print(f"{size:9,}   {direct:10.2f}   {passed:11.2f}   {passed - direct:14.2f}   {rate:13,.0f}")
    finally:
        for process in (gateway, store):
            if process.stdin:
                process.stdin.close()
        gateway.wait()
        store.kill()
        store.wait()


if __name__ == "__main__":
    main()
