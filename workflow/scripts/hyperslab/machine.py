"""What was measured where: node, processor, kernel, file system, versions, and the interval of a cell."""

from __future__ import annotations

import os
import platform
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from hyperslab import pagecache


def describe_machine() -> dict[str, Any]:
    """Node, processor, memory and kernel."""
    return {
        "node": node_name(),
        "cpu": _first_value("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "reclaims_by_itself": _reclaim(),
        "residency": _residency(),
    }


def node_name() -> str:
    """Slurm's name of this node, else the machine's."""
    return os.environ.get("SLURMD_NODENAME") or platform.node()


def _first_value(file: str, key: str) -> str:
    try:
        for line in Path(file).read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == key:
                return value.strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _residency() -> str:
    """How this kernel tells which pages of a file are in memory: "cachestat" or "mincore"."""
    descriptor = os.open(__file__, os.O_RDONLY)
    try:
        return pagecache.method(descriptor)
    finally:
        os.close(descriptor)


def _reclaim() -> bool:
    """Whether the kernel reclaims cached pages without need (DAMON)."""
    module = Path("/sys/module/damon_reclaim/parameters/enabled")
    with suppress(OSError):
        if module.read_text().strip() == "Y":
            return True
    for state in Path("/sys/kernel/mm/damon/admin/kdamonds").glob("*/state"):
        with suppress(OSError):
            actions = {
                action.read_text().strip() for action in state.parent.glob("contexts/*/schemes/*/action")
            }
            if state.read_text().strip() == "on" and actions & {"pageout", "cold"}:
                return True
    return False


def describe_file_system(root: str) -> dict[str, Any]:
    """Type, source, mount options, block size, free space and read-ahead of the file system of `root`."""
    path = Path(root).resolve()
    mount = {"type": "unknown", "source": "unknown", "options": ""}
    best = -1
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        point = fields[4].encode().decode("unicode_escape")
        separator = fields.index("-")
        inside = str(path) == point or str(path).startswith(point.rstrip("/") + "/")
        # The deepest mount point that contains the path wins, the later of two on one point.
        if inside and len(point) >= best:
            best = len(point)
            kind, source, options = fields[separator + 1 : separator + 4]
            mount = {"type": kind, "source": source, "options": f"{fields[5]},{options}"}
    space = os.statvfs(path)
    return {
        **mount,
        "block_bytes": space.f_bsize,
        "free_bytes": space.f_bavail * space.f_frsize,
        "read_ahead_bytes": _read_ahead(os.stat(path).st_dev),
        "memory_resident": mount["type"] in ("tmpfs", "ramfs"),
        # Caches beyond this node's (servers, hosts) cannot be emptied from here.
        "server_cache": "not controlled",
    }


def _read_ahead(device: int) -> int | None:
    info = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")
    try:
        return int(info.read_text()) * 1024
    except (OSError, ValueError):
        return None


def describe_versions() -> dict[str, str]:
    """Versions of everything between the study and the kernel."""
    import h5py
    import numpy as np

    return {
        "python": platform.python_version(),
        "h5py": h5py.__version__,
        "hdf5": ".".join(str(part) for part in h5py.h5.get_libversion()),
        "numpy": np.__version__,
        "executable": Path(sys.executable).name,
    }


def now() -> dict[str, Any]:
    """This moment on every clock that comparisons need."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = platform.node()
    return {"boot_id": boot, "boottime_s": time.clock_gettime(time.CLOCK_BOOTTIME), "wall_s": time.time()}
