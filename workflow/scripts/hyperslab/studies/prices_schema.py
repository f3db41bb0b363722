"""What storage, requests and machines cost, as a study says it. Counts are measured; prices are data."""

from __future__ import annotations

import datetime
from typing import Annotated

from pydantic import Field

from hyperslab.validation.models import Count, Name, Strict, Text

Price = Annotated[float, Field(ge=0, le=1e9)]


class Prices(Strict):
    """Prices of a provider, or of a machine room of one's own.

    They enter no measurement: with other prices a report is made again, and nothing is measured.
    """

    source: Text = Field(description="whose prices these are")
    date: datetime.date = Field(description="when they were so, such as 2026-11-23")
    currency: Annotated[Text, Field(max_length=12)] = Field(default="USD", description="of all prices")
    stored: Price = Field(default=0.0, description="of a GB (10^9 bytes) that is kept for a month")
    stored_at: dict[Name, Price] = Field(
        default={}, description="the same at sites where it is another one, by the site's name"
    )
    puts: Price = Field(default=0.0, description="of 1,000 requests that put something into an object store")
    gets: Price = Field(default=0.0, description="of 1,000 requests that get something from it")
    lists: Price | None = Field(
        default=None, description="of 1,000 requests that ask which objects there are; as those that put"
    )
    heads: Price | None = Field(
        default=None, description="of 1,000 requests that ask for an object's size alone; as those that get"
    )
    out: Price = Field(
        default=0.0,
        description="of a GB that comes to whoever asks: from the object store, or from the server before it",
    )
    out_at: dict[Name, Price] = Field(
        default={}, description="the same at sites where it is another one, such as one's own disk"
    )
    inside: Price = Field(
        default=0.0, description="of a GB that a server gets from the object store behind it"
    )
    worker_hour: Price = Field(default=0.0, description="of an hour in which one worker computes")
    running_hour: dict[str, Price] = Field(
        default={},
        description="of an hour of what runs all month for layouts with such names or patterns, as a server",
    )
    questions: Count = Field(default=10_000, description="questions a month, as many of each case")
    cases: list[Name] = Field(
        default=[], description="the cases that are asked; without it all that read selections"
    )
    together: bool = Field(
        default=False, description="whether one figure shows the layouts of all sites of the study"
    )
