"""How figures may look: every setting of `style` in config.yaml, with its bounds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from hyperslab.validation.models import Strict, Text, Whole

Palette = Literal[
    "colorblind", "deep", "muted", "pastel", "bright", "dark", "tab10", "tab20", "Set1", "Set2", "Set3",
    "Paired", "Accent", "Dark2", "husl", "hls",
]  # fmt: skip
HEAT = (
    "viridis", "plasma", "inferno", "magma", "cividis", "rocket", "mako", "flare", "crest", "Greys", "Blues",
    "Greens", "Oranges", "Purples", "Reds",
)  # fmt: skip


def _heat(name: str) -> str:
    """Return the name of a colour map; raises ValueError for one that is not known to rise evenly."""
    if name.removesuffix("_r") not in HEAT:
        raise ValueError(f"should be one of {', '.join(HEAT)}, or one of these with _r, which turns it round")
    return name


# What Matplotlib takes for a colour without being asked.
Colour = Annotated[str, Field(pattern=r"^#[0-9a-fA-F]{6}$")]


class FigureStyle(Strict):
    """How figures look. Sizes are inches and points."""

    # A page is about 1,000 pixels wide; SVG points are 4/3 of a pixel.
    width: Annotated[float, Field(ge=3, le=40)] = Field(default=10.0, description="width of a figure, inches")
    dpi: Annotated[Whole, Field(ge=30, le=600)] = Field(default=100, description="pixels an inch, of a PNG")
    font: Text = Field(default="DejaVu Sans", description="name of a font that Matplotlib finds")
    font_size: Annotated[float, Field(ge=4, le=40)] = Field(
        default=9.5, description="size of letters, points"
    )
    palette: Palette = Field(
        default="colorblind", description="colours; the first is that of the recommended layout"
    )
    heat: Annotated[str, AfterValidator(_heat)] = Field(
        default="viridis_r", description="colours of a grid of times, from fast to slow"
    )
    ink: Colour = Field(default="#222222", description="colour of text")
    muted: Colour = Field(default="#6e6e6e", description="colour of small print")
    faint: Colour = Field(default="#c4c4c4", description="colour of frames")
    alarm: Colour = Field(default="#c00000", description="colour of what should not be")
    pale: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.35, description="how opaque a bar is that runs beyond the axis, or a score below full marks"
    )
    cut: Annotated[float, Field(ge=1, le=1000)] = Field(
        default=1.5,
        description="bars are cut where the longest is more than this many times as long as the axis that "
        "suits most",
    )
    row: Annotated[float, Field(ge=0.05, le=5)] = Field(default=0.30, description="height of a row, inches")
    row_many: Annotated[float, Field(ge=0.05, le=5)] = Field(
        default=0.205, description="height of a row where there are many, inches"
    )
