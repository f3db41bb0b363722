"""What a study may say of the file that describes its sites, where config/sites.yaml does not."""

from __future__ import annotations

from pydantic import Field

from hyperslab.validation.models import Strict, Text


class SitesFile(Strict):
    """The file of sites that a study needs, and how to make what it describes."""

    file: Text = Field(description="the file: --config sites=FILE")
    needs: Text | None = Field(default=None, description="what making it needs")
    make: list[Text] = Field(default=[], description="commands that make it and the file systems in it")
    remove: Text | None = Field(default=None, description="the command that removes these again")
