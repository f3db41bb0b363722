"""How it was measured, one sentence each, and what the columns of the tables mean."""

from __future__ import annotations

from collections.abc import Sequence

from hyperslab.measuring.throttling import ENOUGH_SECONDS
from hyperslab.report.model import Fact, Table, table
from hyperslab.results.block_model import MIN_ROUNDS
from hyperslab.results.tables import COLUMNS

# Paragraphs "term: what it means".
METHOD_TEXT = f"""
Cold: The file's pages are evicted before every selection; then open, one selection, close; only the
selection is timed.

Library-cold: The same on a file system that lies in memory, where nothing can be evicted: only the
library starts anew.

Warm: The whole file is in the page cache; all selections follow on one open file.

Session: Evicted once, then all selections in order on one open file: a ramp that shows the cache
filling, not a sample of one speed.

Write: From creating the file to the end of fsync (durable), beside a plain write and fsync of the same
bytes.

Round: Every cell of the study once, in shuffled order, each with a newly written file and in a new
process.

Verification: Every selection is compared with what was written, outside the stopwatch; a difference
fails the cell. Of a layout with a lossy filter the error is measured instead, over every element that was
read; a cell fails where its filter promised less.

Interval: A 95 % t interval on logarithms of round medians, with the error between rounds pooled over
layouts; comparisons are adjusted (Holm); none under {MIN_ROUNDS} rounds.

Recommendation: The smallest weighted geometric mean of times relative to the best layout of each case,
within the bound on file size; of those that cannot be told from the fastest, the smallest file.

Speed-ups: From confirming rounds alone, measured after the choice, because the fastest of many looks
faster than it is.

Score as published: The criteria of the study that a layout meets, with the study's own bounds, on the
states that they name.

Score, matched: The same with every time bound multiplied by one factor λ per site and held against cold
medians: the smallest λ at which the wanted number of layouts meets all criteria.

Counts: Asked is the bytes of the selection, chunk bytes the stored bytes of the chunks touched,
requested what the library asked the kernel for, device what the device delivered, read-ahead included.

Throttled: A limit on a site's I/O lets bursts pass, so that the median of small operations is that of a
burst. Cold reads and writes there are repeated until {ENOUGH_SECONDS:g} s of I/O at the limit are done, and
compared by the mean of each round, or by what the limit alone takes where pauses between operations made
the mean smaller.

Noise: A fixed computation and direct reads before and after each cell; a cell is noisy where one lies
further from the site's median than max(5 MAD, 25 %).
"""
METHOD: Sequence[Fact] = [Fact(*" ".join(text.split()).split(": ", 1)) for text in METHOD_TEXT.split("\n\n")]

# Column of summary.csv -> what it holds, with its unit.
SUMMARY_COLUMNS: dict[str, str] = {
    **{name: COLUMNS[name] for name in ("site", "layout", "case", "kind", "phase", "state", "round")},
    "n": "number of repeats in the round",
    "min_s": "seconds, smallest of the round's repeats",
    "q1_s": "seconds, first quartile of the round's repeats (linear interpolation)",
    "median_s": "seconds, median of the round's repeats",
    "q3_s": "seconds, third quartile of the round's repeats (linear interpolation)",
    "mean_s": "seconds, mean of the round's repeats",
    "max_s": "seconds, largest of the round's repeats",
    "first_access_s": "seconds of repeat 0: the first selection after opening",
    "typical_s": "seconds, what stands for the round: the median; of throttled cold reads and writes the "
    "mean, and at least what the limit alone takes",
    "throttled_s": "seconds that the site's limit alone would take for all repeats; empty without one",
    "throttle_artefact": COLUMNS["throttle_artefact"],
    "rounds": "number of rounds of this layout, case, phase and state",
    "pooled_median_s": "seconds, geometric mean of the rounds' typical_s",
    "pooled_low_s": f"seconds, lower end of its 95 % interval; empty under {MIN_ROUNDS} rounds",
    "pooled_high_s": f"seconds, upper end of its 95 % interval; empty under {MIN_ROUNDS} rounds",
    "pooled_sd_log": "deviation between rounds of the log (base e) of the median, pooled over layouts",
    **{
        name: COLUMNS[name]
        for name in ("file_bytes", "data_bytes", "padding_bytes", "index_bytes", "index_predicted_bytes",
                     "remainder_bytes", "chunks", "chunk_shape", "filters", "grid_m", "grid_n")
    },
}  # fmt: skip


def column_tables() -> list[Table]:
    """What every column of measurements.parquet and of summary.csv holds."""
    described = (
        ("measurements.parquet: one row a repeat", COLUMNS),
        ("summary.csv: one row a site, layout, case, phase, state and round", SUMMARY_COLUMNS),
    )
    return [
        table(title, ["Column", "Meaning and unit"], columns.items(), folded=True)
        for title, columns in described
    ]
