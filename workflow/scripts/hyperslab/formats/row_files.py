"""Files of ragged rows, whatever their format: how one is filled by its own writer."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from hyperslab.data.rows import Rows

if TYPE_CHECKING:
    from hyperslab.data.values import Values
    from hyperslab.formats.row_seam import RowsFormat
    from hyperslab.specifications import Specification


def generate_plainly(format_: RowsFormat, path: str, spec: Specification, values: Values) -> str:
    """Fill a new file with one dataset, block by block in the order of rows; returns "plain"."""
    assert isinstance(values, Rows)
    with closing(format_.create(path, spec, [values.lengths], False)) as opened:
        for first, stop in values.filled_up(spec["layout"].get("width", 0)).blocks():
            opened.writer(0, first, values.run(first, stop))()
    return "plain"
