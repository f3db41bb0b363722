"""What a layout of HSDS in an object store may say: that of HSDS."""

from __future__ import annotations

from pydantic import Field

from hyperslab.layouts import hsds_schema


class HsdsS3Model(hsds_schema.HsdsModel):
    """How an array is stored behind HSDS whose objects are in a store."""

    format: str = Field(default="hsds-s3", description="the format; what else may be given depends on it")


MODEL = HsdsS3Model
resolve = hsds_schema.resolve
