"""Sizes, limits and striping of file systems in words, the same wherever they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ABSENT = "-"


def size(value: int | None) -> str:
    """Bytes in the largest fitting unit: 4 KiB, 2.5 MiB."""
    if value is None:
        return ABSENT
    unit, name = (2**20, "MiB") if value >= 2**20 else (2**10, "KiB") if value >= 2**10 else (1, "bytes")
    return f"{value / unit:,.{0 if value % unit == 0 else 1}f} {name}"


def gigabytes(value: int | None) -> str:
    """Bytes as GB of 10^9."""
    return ABSENT if value is None else f"{value / 1e9:,.1f} GB"


def throttle_text(throttle: Mapping[str, Any]) -> str:
    """What a cgroup limits (see `limits.limits_of`), such as "read 50 MiB/s, write 50 MiB/s"."""
    rates = ((word, throttle.get(f"{word}_bytes_per_s")) for word in ("read", "write"))
    counts = ((word, throttle.get(f"{word}_per_s")) for word in ("reads", "writes"))
    parts = [f"{word} {size(rate)}/s" for word, rate in rates if rate]
    return ", ".join([*parts, *(f"{count:,} {word}/s" for word, count in counts if count)])


def striping_text(striping: Mapping[str, Any]) -> str:
    """A striping (see `striping.describe`): counts as they are, bytes with their unit."""
    parts = []
    for name, value in striping.items():
        if value is not None:
            shown = value if name.endswith("count") else size(int(value))
            parts.append(f"{name.removesuffix('_bytes').replace('_', ' ')} {shown}")
    return ", ".join(parts)
