"""Layouts of HSDS whose objects lie in an object store, from which the server reads and where it writes."""

from __future__ import annotations

from collections.abc import Sequence

from hyperslab.layouts.hsds import HsdsLayout
from hyperslab.layouts.layout import Abilities
from hyperslab.layouts.s3_access import CLIENT


class HsdsS3Layout(HsdsLayout):
    """A resolved layout of a dataset behind HSDS, whose objects are in a store."""

    title = "HSDS in an object store"
    suffix = ".hsds-s3"
    abilities = Abilities(pages=False)
    libraries = {**HsdsLayout.libraries, "aiobotocore": "aiobotocore"}

    def clients(self) -> tuple[str, ...]:
        """Return the modules of HSDS's client, and of what puts objects."""
        return *super().clients(), CLIENT

    def words(self, axes: Sequence[str], itemsize: int) -> str:
        """Return what every layout of HSDS says of itself, and where its objects are."""
        return f"{super().words(axes, itemsize)}, objects in a store"


LAYOUT = HsdsS3Layout
