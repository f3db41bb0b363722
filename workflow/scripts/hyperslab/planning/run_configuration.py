"""What config/config.yaml and --config may say of a run, checked before anything else is looked at.

To Snakemake only `True` and `False` on a command line are no text; here `false`, `no` and `0` are false, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from hyperslab.sites.configuration import EXAMPLE
from hyperslab.studies.figure_style import FigureStyle
from hyperslab.validation.errors import ConfigurationError, name_mistake, validate
from hyperslab.validation.models import LONGEST_TEXT, Strict, Text
from hyperslab.validation.nearest import did_you_mean
from hyperslab.validation.yaml_files import read_yaml

COMMAND_LINE = "--config"
WORDS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


def _switch(given: object) -> bool:
    """Return true or false however it is written; raises ValueError for anything else."""
    word = str(given).lower()
    if word not in WORDS:
        raise ValueError(f"should be true or false, not {given!r}{did_you_mean(word, ('true', 'false'))}")
    return WORDS[word]


def _text(given: object) -> object:
    """Return what a command line gives for a text: nothing is empty, and a number is its digits."""
    if given is None:
        return ""
    return str(given) if isinstance(given, int | float) and not isinstance(given, bool) else given


def _study(name: str) -> str:
    """Return the name of a study; raises ValueError for what cannot be one, such as a path."""
    if wrong := name_mistake(name):
        raise ValueError(wrong)
    return name


def _style(given: object) -> object:
    """Return a style with whole numbers, which a command line gives as text."""
    if not isinstance(given, dict):
        return given
    texts = {key: value for key, value in given.items() if isinstance(value, str)}
    return {**given, **{key: int(value) for key, value in texts.items() if value.isdecimal()}}


Switch = Annotated[bool, BeforeValidator(_switch)]
Words = Annotated[str, BeforeValidator(_text), Field(max_length=LONGEST_TEXT)]


class RunConfiguration(Strict):
    """The keys of config/config.yaml, each of which --config key=value replaces for one run."""

    study: Annotated[str, BeforeValidator(_text), AfterValidator(_study)] = Field(
        description="the study that is made where no target is named"
    )
    sites: Annotated[Text, BeforeValidator(_text)] = Field(
        default=EXAMPLE,
        description="the file of sites; config/sites.local.yaml, if there is one, stands in for the default",
    )
    measure: Switch = Field(
        default=True, description="false: only tables, figures and reports of the results that are here"
    )
    fork: Switch = Field(
        default=True, description="false: every process of a cell starts an interpreter of its own"
    )
    local: Switch = Field(
        default=False,
        description="true: under a cluster's profile, also measure on this machine, a login node",
    )
    remeasure: Words = Field(
        default="", description="a glob over site/layout/case.round, or noisy: measure these cells again"
    )
    aggregate: Literal["here", "cluster"] = Field(
        default="here", description="cluster: tables, figures and report become jobs of the cluster"
    )
    site: Words = Field(
        default="", description="whose recommendation a rewritten file follows, where sites differ"
    )
    materialise: Switch = Field(
        default=False,
        description="true: a rewritten file holds the values that virtual datasets and external storage have "
        "in other files",
    )
    mpi: Words = Field(
        default="", description="what starts MPI ranks; empty: srun --overlap in a Slurm job, else mpirun"
    )
    container: Annotated[Text, BeforeValidator(_text)] = Field(
        default="hyperslab.sif", description="the image in which rules run with --sdm apptainer"
    )
    website: Switch = Field(
        default=False, description="true: reports and the page of all claims link to each other (make site)"
    )
    style: Annotated[FigureStyle, BeforeValidator(_style)] = Field(
        default=FigureStyle(), description="how figures look; see FigureStyle"
    )


class InnerConfiguration(RunConfiguration):
    """What a run inside another run is told beside."""

    batched: Words = Field(default="", description="the site whose batch is measured from inside")
    batch: Words = Field(default="", description="the name of that batch")
    stage: Words = Field(default="", description="the number of the stage of added rounds to measure")
    claim: Words = Field(default="", description="the claim alone for which they are added")


def check_file(file: Path) -> None:
    """Check config.yaml by itself; raises ConfigurationError, which names the file."""
    validate(RunConfiguration, read_yaml(file), file)


def checked(config: Mapping[str, Any], arguments: Sequence[str]) -> dict[str, Any]:
    """Return the configuration of a run with each value in its kind; raises ConfigurationError.

    `config` is what Snakemake has merged of config.yaml, which was checked, and of the command line.
    """
    given = [word.split("=")[0] for word in arguments if word.split("=")[0] in ("--config", "-C")]
    if len(given) > 1:
        message = "is given twice, of which Snakemake takes the last; write every KEY=VALUE after one"
        raise ConfigurationError(COMMAND_LINE, "", message)
    inner = config.keys() & (InnerConfiguration.model_fields.keys() - RunConfiguration.model_fields.keys())
    model = InnerConfiguration if inner else RunConfiguration
    found = validate(model, dict(config), Path(COMMAND_LINE))
    # What a style leaves out stays out: a figure depends on what is given.
    return {**found.model_dump(), "style": found.style.model_dump(exclude_unset=True)}
