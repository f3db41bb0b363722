"""Numbers as text, the same wherever they are shown: times, bytes, ratios, limits of file systems."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

ABSENT = "–"
MB = 1e6
MIB = 2.0**20
CANNOT_TELL = "cannot tell"
# What an error that is infinite comes from.
NUMBER_LOST = "a number became none"


def known(value: float | None) -> bool:
    """Return whether there is a number: not None, not NaN, not infinite."""
    return value is not None and math.isfinite(value)


def significant(value: float | None, digits: int = 3) -> str:
    """Return a number to `digits` significant digits without exponent: 12.3, 0.00456, 1,230."""
    if value is None or not math.isfinite(value):
        return ABSENT
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{decimals}f}"


def seconds(value: float | None) -> str:
    """Return a time with an SI prefix and three significant digits: 853 ns, 15.3 ms, 4.67 s, 1,230 s."""
    if value is None or not math.isfinite(value):
        return ABSENT
    if value == 0:
        return "0 s"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        # 999.6 ms is 1.00 s: the prefix is chosen for the rounded number.
        if abs(float(f"{value / scale:.2e}")) >= 1:
            return f"{significant(value / scale)} {unit}"
    return f"{significant(value / 1e-9)} ns"


def duration(value: float | None) -> str:
    """Return a long time as people say it: 42 s, 3 min 10 s, 1 h 12 min."""
    if value is None or not math.isfinite(value):
        return ABSENT
    whole = round(value)
    if whole < 60:
        return seconds(value)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(value / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def megabytes(value: float | None, binary: bool = False) -> str:
    """Return the bytes as MB of 10^6, or as MiB of 2^20 where `binary`, with one or two decimals."""
    if value is None or not math.isfinite(value):
        return ABSENT
    scaled = value / (MIB if binary else MB)
    unit = "MiB" if binary else "MB"
    if scaled == 0:
        return f"0 {unit}"
    if abs(scaled) < 0.1:
        return f"{significant(scaled, 2)} {unit}"
    decimals = 2 if abs(scaled) < 100 else 1
    return f"{scaled:,.{decimals}f} {unit}"


def whole(value: float | None) -> str:
    """Return a whole number with thousands separated: 40,768."""
    return ABSENT if value is None or not math.isfinite(value) else f"{round(value):,}"


def percent(value: float | None, digits: int = 1) -> str:
    """Return a share from 0 to 1 in per cent."""
    return ABSENT if value is None or not math.isfinite(value) else f"{100 * value:.{digits}f} %"


def share(value: float, digits: int = 0) -> str:
    """Return a share from 0 to 1 in per cent with `digits` decimals, or more where it would look like 0 % or
    100 % and is neither.
    """
    for more in range(digits, 4):
        if value in (0, 1) or 0 < round(100 * value, more) < 100:
            return percent(value, more)
    return f"{significant(100 * value, 1)} %" if value < 0.5 else percent(0.999)


def share_above(value: float) -> str:
    """Return the share, in per cent, above which something is so: as many digits as keep it below 100 %."""
    return share(min(value, math.nextafter(1, 0)), 0 if value < 0.95 else 1)


def interval(low: float | None, high: float | None, alpha: float = 0.05) -> str:
    """Return an interval of a ratio at level 1 - alpha: "95 % 10.1 to 14.9"; empty where there is none."""
    level = f"{100 * (1 - alpha):.4g} %"
    return f"{level} {significant(low)} to {significant(high)}" if known(low) and known(high) else ""


def deviation(sd_log: float) -> str:
    """Return a deviation of logs (base e) as the share by which times differ: 0.06 is 6.2 %."""
    return percent(math.expm1(sd_log))


def with_deviation(spread: str, sd_log: float | None) -> str:
    """Return an interval with the deviation between rounds behind it: "95 % 1.1 to 1.4, sd 6.2 %"."""
    return f"{spread}, sd {deviation(sd_log)}" if spread and sd_log is not None and known(sd_log) else spread


def time_interval(low: float | None, high: float | None) -> str:
    """Return a 95 % interval of a time: "95 % 1.10 to 1.49 ms", "95 % 900 µs to 1.20 ms";
    empty without one.
    """
    if not (known(low) and known(high)):
        return ""
    (first, unit), (last, other) = seconds(low).split(), seconds(high).split()
    return f"95 % {first} to {last} {other}" if unit == other else f"95 % {first} {unit} to {last} {other}"


def speed(
    ratio: float | None, low: float | None, high: float | None, different: bool
) -> tuple[str, str, str]:
    """Return the words, their interval and their tone for `ratio` = time of the other over time of the pick.

    ("12.3x faster", "95 % 10.1 to 14.9", "good"); below 1 the reciprocal, "slower"; what would be 1.00x is
    "as fast". Where the interval does not exclude 1 the words are "cannot tell" and the ratio stands with the
    interval. Without an interval the ratio is given, and that it has none.
    """
    if ratio is None or not math.isfinite(ratio):
        return ABSENT, "", ""
    faster = ratio >= 1
    times = significant(ratio if faster else 1 / ratio)
    same = times == "1.00"
    words = "as fast" if same else f"{times}x {'faster' if faster else 'slower'}"
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return words, "no interval", "unknown"
    if not different:
        return CANNOT_TELL, f"{significant(ratio)}x, {interval(low, high)}", "unknown"
    if faster:
        return words, interval(low, high), "" if same else "good"
    return words, interval(1 / high, 1 / low), "" if same else "bad"


def anchor(heading: str) -> str:
    """Return what GitHub makes of a heading: where links lead that name it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def listing(names: Iterable[str], most: int | None = None) -> str:
    """Return the names in a row: "a, b and c"; beyond `most`, "a, b and 5 more"."""
    texts = [str(name) for name in names]
    if most is not None and len(texts) > most:
        texts = [*texts[: most - 1], f"{len(texts) - most + 1} more"]
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: "1 cell", "1,200 cells"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def span(numbers: Iterable[int], one: str) -> str:
    """Return from which to which number there are, with their noun: "3 rounds", "3 to 8 rounds"."""
    known = sorted(set(numbers)) or [0]
    return count(known[-1], one) if len(known) == 1 else f"{known[0]:,} to {count(known[-1], one)}"


def shape(extents: Sequence[int] | None) -> str:
    """Return the extents in array order: 4x4x2048; "contiguous" where there are none."""
    return "contiguous" if not extents else "x".join(str(extent) for extent in extents)


def moment(wall: float | None) -> str:
    """Return the seconds since 1970 as a date and time in UTC."""
    if wall is None or not math.isfinite(wall):
        return ABSENT
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def size(value: int | None) -> str:
    """Return the bytes in the largest fitting unit: 4 KiB, 2.5 MiB."""
    if value is None:
        return ABSENT
    unit, name = (2**20, "MiB") if value >= 2**20 else (2**10, "KiB") if value >= 2**10 else (1, "bytes")
    return f"{value / unit:,.{0 if value % unit == 0 else 1}f} {name}"


def gigabytes(value: int | None) -> str:
    """Return the bytes as GB of 10^9."""
    return ABSENT if value is None else f"{value / 1e9:,.1f} GB"


def volume(value: float | None) -> str:
    """Return the bytes of a file of any length, in the largest unit of 10^3 that fits: 853 MB, 100 TB."""
    if value is None or not math.isfinite(value):
        return ABSENT
    for name, unit in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        # 999.6 MB are 1.00 GB: the unit is chosen for the rounded number.
        if float(f"{value / unit:.2e}") >= 1:
            return f"{significant(value / unit)} {name}"
    return f"{value:.0f} bytes"


def throttle_text(throttle: Mapping[str, Any]) -> str:
    """Return what a cgroup limits (see `limits.limits_of`), such as "read 50 MiB/s, write 50 MiB/s"."""
    rates = ((word, throttle.get(f"{word}_bytes_per_s")) for word in ("read", "write"))
    counts = ((word, throttle.get(f"{word}_per_s")) for word in ("reads", "writes"))
    parts = [f"{word} {size(rate)}/s" for word, rate in rates if rate]
    return ", ".join([*parts, *(f"{count:,} {word}/s" for word, count in counts if count)])


def striping_text(striping: Mapping[str, Any]) -> str:
    """Return a striping (see `striping.describe`): counts as they are, bytes with their unit."""
    parts = []
    for name, value in striping.items():
        if value is not None:
            shown = value if name.endswith("count") else size(int(value))
            parts.append(f"{name.removesuffix('_bytes').replace('_', ' ')} {shown}")
    return ", ".join(parts)
