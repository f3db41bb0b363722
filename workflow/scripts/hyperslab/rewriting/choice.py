"""Which layout a user's file gets: one of the study's by name, or the one recommended for a site."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hyperslab.data.donor_paths import NotThere, is_hdf5, located
from hyperslab.layouts.schema import is_balanced
from hyperslab.rewriting import RewriteError
from hyperslab.rewriting.asking import HDF5, asked
from hyperslab.rewriting.asking import ZARR as ZARR
from hyperslab.studies import advised, specification
from hyperslab.studies.case_kinds import kind_of
from hyperslab.studies.layout_expansion import RECOMMENDED as RECOMMENDED
from hyperslab.studies.study import LoadedStudy
from hyperslab.validation.errors import ConfigurationError
from hyperslab.validation.nearest import choices

# So many layouts that cannot be had stand in one line.
MOST_NAMED = 3
TARGET = re.compile(r"results/([^/]+)/layout/([^/]+)(\.h5|\.zarr)")


def _of_study(study: LoadedStudy, name: str, suffix: str) -> dict[str, Any]:
    """Return `asked` for a layout of a study: its "all" is all of the real dataset, not of a scaled array."""
    resolved, axes = study.layouts[name], study.dataset.axes
    if resolved["order"] != axes:
        stored = ", ".join(resolved["order"])
        raise RewriteError(
            f"stores the axes as {stored}; a rewritten dataset keeps its own, {', '.join(axes)}"
        )
    found = asked(study.given[name], resolved["settings"], suffix)
    if second := found.get("second"):
        reads = [case for case, about in study.cases.items() if kind_of(about).reads_selections]
        found["second"] = {**second, "others": [case for case in reads if case not in second["cases"]]}
    if is_balanced(found.get("chunks")):
        found["chunks"] = resolved["chunks"]
    if own := advised.own_chunks(study.name, name):
        found["chunks"] = own
    return {**found, "axes": axes} if suffix == ZARR else found


def own_dataset(study: LoadedStudy) -> tuple[str, str]:
    """Return (file, dataset) that the study's donor names; raises ConfigurationError without one in HDF5."""
    donor = study.dataset.donor
    if donor is None:
        message = "is missing; it names the file to rewrite, as {path: FILE, dataset: NAME}"
        raise ConfigurationError(study.file, "dataset.donor", message)
    try:
        file, dataset = located(donor.model_dump())
    except NotThere as reason:
        raise ConfigurationError(study.file, "dataset.donor", str(reason)) from None
    try:
        # What is not there is said of the file.
        other = file.exists() and not is_hdf5(file)
    except OSError as error:
        raise ConfigurationError(study.file, "dataset.donor", f"{file}: {error.strerror}") from None
    if other or dataset is None:
        message = f"only a dataset of an HDF5 file can be rewritten, not {donor.path}"
        raise ConfigurationError(study.file, "dataset.donor", message)
    return str(file), dataset


def offered(study: LoadedStudy, name: str, suffix: str = HDF5) -> dict[str, Any]:
    """Return the layouts among which a rewrite to `name` chooses: name -> layout, or why it cannot be had.

    `suffix` ends the name of the result and says what it is: an HDF5 file, or a directory of Zarr.

    Raises ConfigurationError for a name that the study does not have, for a layout of that name that cannot
    be had, and where none can.
    """
    if name not in study.layouts and name != RECOMMENDED:
        known = choices(name, (*study.layouts, RECOMMENDED))
        raise ConfigurationError(study.file, "layouts", f"no layout {name!r}; there are {known}")
    found: dict[str, Any] = {}
    for each in [name] if name in study.layouts else study.layouts:
        try:
            found[each] = _of_study(study, each, suffix)
        except RewriteError as error:
            if each == name:
                raise ConfigurationError(study.file, f"layouts.{name}", str(error)) from None
            found[each] = str(error)
    return found | _refused(study, name, found, suffix)


def _refused(study: LoadedStudy, name: str, layouts: Mapping[str, Any], suffix: str) -> dict[str, str]:
    """Return why the user's dataset cannot get some of the layouts, by name; raises ConfigurationError."""
    if suffix == ZARR:
        from hyperslab.rewriting.zarr_copy import refused_layouts
    elif study.dataset.rows:
        from hyperslab.rewriting.rows_copy import refused_layouts
    else:
        from hyperslab.rewriting.opening import refused_layouts

    path, dataset = own_dataset(study)
    possible = {each: layout for each, layout in layouts.items() if isinstance(layout, dict)}
    try:
        found = refused_layouts(Path(path), dataset, possible)
    except (RewriteError, OSError) as error:
        raise ConfigurationError(study.file, "dataset.donor", f"{path}: {error}") from None
    if name in found:
        raise ConfigurationError(study.file, f"layouts.{name}", f"{path}: {found[name]}")
    if possible.keys() == found.keys():
        reasons = "; ".join(f"{each}: {found.get(each, layout)}" for each, layout in layouts.items())
        raise ConfigurationError(study.file, "layouts", f"{path} can get none of them: {reasons}")
    return found


def text(study: LoadedStudy, name: str, suffix: str = HDF5) -> str:
    """Return `offered` as canonical JSON, for the command line."""
    return specification.text(offered(study, name, suffix))


def recommendation_file(study: LoadedStudy, name: str) -> list[str]:
    """Return the recommendation that a rewrite to `name` waits for, or nothing."""
    return [] if name in study.layouts else [f"results/{study.name}/recommendation.json"]


def targets(arguments: Iterable[str]) -> list[tuple[str, str, str]]:
    """Return (study, layout, suffix) of every rewritten file or directory among the targets of a run."""
    found = (TARGET.fullmatch(argument) for argument in arguments)
    return [(one[1], one[2], one[3]) for one in found if one]


def measures(study: LoadedStudy, arguments: Iterable[str]) -> bool:
    """Return whether a run with these targets may measure for a study:
    not for files in named layouts alone.
    """
    mine = [argument for argument in arguments if argument.startswith(f"results/{study.name}/")]
    named = [found[2] in study.layouts for argument in mine if (found := TARGET.fullmatch(argument))]
    return not (mine and len(named) == len(mine) and all(named))


def check(study: LoadedStudy, name: str, suffix: str = HDF5) -> str | None:
    """Refuse a rewrite that cannot be made, before anything runs; raises ConfigurationError.

    Returns a line about the layouts that the file cannot get, however fast they are.
    """
    found = [f"{each} ({why})" for each, why in offered(study, name, suffix).items() if isinstance(why, str)]
    file, _ = own_dataset(study)
    result = Path("results", study.name, "layout", name + suffix)
    if Path(file).resolve().is_relative_to(result.resolve()):
        # Snakemake sees two names, and removes what lies there before anything is written.
        message = f"{file} would itself be written over; move it out of {result.parent}, and name it there"
        raise ConfigurationError(study.file, "dataset.donor", message)
    if not found:
        return None
    some = ", ".join(found[:MOST_NAMED]) + (" and others" if len(found) > MOST_NAMED else "")
    return (
        f"{study.name}: the file cannot get {some}; should one of these win, the best of the others is taken"
    )
