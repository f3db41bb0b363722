"""How it was measured, one sentence each, and what the columns of the tables mean."""

from __future__ import annotations

from collections.abc import Sequence

from hyperslab.measuring.throttling import ENOUGH_SECONDS
from hyperslab.report.model import Fact, Table, table
from hyperslab.results.columns import MEASUREMENTS, SUMMARY
from hyperslab.results.comparisons import MIN_ROUNDS, MODERATED_ROUNDS
from hyperslab.specifications import SHORT_SECONDS
from hyperslab.studies.case_kinds import KINDS
from hyperslab.studies.case_kinds.kind import REPEATS

COLD, MOST_COLD = REPEATS["cold"], KINDS["read"].most_repeats["cold"]
SHORT_MS = SHORT_SECONDS * 1000
# Paragraphs "term: what it means".
METHOD_TEXT = f"""
Cold: The file's pages are evicted before every selection; then open, one selection, close; only the
selection is timed. Where data lie in an object store no file is there to evict: its clients start anew, and a
server before it.

Library-cold: The same on a file system that lies in memory, where nothing can be evicted: only the
library starts anew.

Warm: The whole file is in the page cache; all selections follow on one open file.

Session: Evicted once, then all selections in order on one open file: a ramp that shows the cache
filling, not a sample of one speed. Its geometric mean is compared, its median stands beside published ones.

First access: Evict, open, select: opening and selection of the cold repeats, not the one first selection
of a session.

Selections: Those of a round are spread over the array (a Latin hypercube), the same for every layout, and
others in each round and study. A cold state has {COLD} of them, and {MOST_COLD} where they take less than
{SHORT_MS:g} ms, unless the study says how many.

Write: From creating the file to the end of fsync (durable), beside a plain write and fsync of the same
bytes.

Round: Every cell of the study once, in shuffled order, each in a new process and with a newly written file,
which cases of a layout share where the study says so (`shared_files`). A round that is added has the cells
of which something is still open.

Verification: Every selection is compared with what was written, outside the stopwatch; a difference
fails the cell. Of a layout with a lossy filter the error is measured instead, over every element that was
read; a cell fails where its filter promised less.

Interval: A 95 % t interval on logarithms of what stands for a round. Comparisons are formed within each
round and have their own deviation; from {MODERATED_ROUNDS} rounds on it is drawn towards what comparisons
that are made together have in common (moderated t). They are adjusted for their number (Holm). None under
{MIN_ROUNDS} rounds.

Recommendation: With a mix, the least expected time: what a request waits for, weighted by how often each case
is asked. Without one, the least largest regret: the time over that of the best layout for the case, in the
case where that is most. Of a cold selection opening and selection count; times that nobody notices count
alike. The file has to be small enough. A layout with a smaller file is preferred if it is surely as good
within 5 %.

Speed-ups: From confirming rounds, measured after the choice, because the fastest of many looks faster than
it is; where the study has none, the answer says that nothing confirms them.

Score, as published or with the study's own bounds: The criteria of the study that a layout meets, on the
states that they name.

Score, matched: The same with every time bound multiplied by one factor λ per site and held against cold
medians: the smallest λ at which the wanted number of layouts meets all criteria.

Counts: Asked is the bytes of the selection, chunk bytes the stored bytes of the chunks touched,
requested what the library asked the kernel for, device what the device delivered, read-ahead included.

Throttled: A limit on a site's I/O lets bursts pass, so that the median of small operations is that of a
burst. Cold selections and views of arrays, and writes by one process, are repeated there until
{ENOUGH_SECONDS:g} s of I/O at the limit are done; other cases have as many repeats as elsewhere. All cold
reads and writes are compared by the mean of each round, or by what the limit alone takes where pauses between
operations made the mean smaller.

Noise: A fixed computation and direct reads before and after each cell; a cell is noisy where one lies
further from the site's median than max(5 MAD, 25 %).
"""
METHOD: Sequence[Fact] = [Fact(*" ".join(text.split()).split(": ", 1)) for text in METHOD_TEXT.split("\n\n")]


def column_tables() -> list[Table]:
    """Return what every column of measurements.parquet and of summary.csv holds."""
    described = (
        ("measurements.parquet: one row a repeat", MEASUREMENTS),
        ("summary.csv: one row a site, layout, case, phase, state and round", SUMMARY),
    )
    return [
        table(
            title,
            ["Column", "Type", "Unit", "Meaning"],
            [[name, column.type, column.unit, column.meaning] for name, column in columns.items()],
            folded=True,
        )
        for title, columns in described
    ]
