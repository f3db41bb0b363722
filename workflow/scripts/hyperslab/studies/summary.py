"""What the report needs of a study beside its tables: titles, order and shapes, as JSON for a rule."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hyperslab.data.donor_paths import identity
from hyperslab.layouts import layout_of
from hyperslab.layouts.layout import Layout
from hyperslab.studies.case_kinds.workers import TEAM_KEYS

if TYPE_CHECKING:
    from hyperslab.studies.dataset_schema import DonorFile
    from hyperslab.studies.study import LoadedStudy

Meta = Mapping[str, Any]

# What reports need of a resolved case.
CASE_KEYS = ("title", "kind", "states", "shape", "level", *TEAM_KEYS)


def settings_vary(study: LoadedStudy) -> bool:
    """Return whether layouts of one format differ in what most studies have the same for all of it.

    That is their settings, storage or release; two formats have different settings by nature.
    """
    kept = ("format", "settings", "storage", "release")
    looks = {repr([layout.get(key) for key in kept]) for layout in study.layouts.values()}
    return len(looks) > len({layout.get("format") for layout in study.layouts.values()})


def layout_meta(layout: Layout, axes: Sequence[str], itemsize: int) -> dict[str, Any]:
    """Return what the report shows of a layout; `json.dumps` takes it."""
    return {
        "chunks": layout.chunks,
        "filters": layout.filters_text(),
        "words": layout.words(axes, itemsize),
        "label": layout.described["label"],
    }


def study_meta(study: LoadedStudy) -> dict[str, Any]:
    """Return the part of a loaded study that the report shows; `json.dumps` takes it."""
    dataset = study.dataset
    cases = {
        name: {
            **{key: case[key] for key in CASE_KEYS if key in case},
            **({"raw_bytes": dataset.bytes_of(case["shape"])} if dataset.rows else {}),
        }
        for name, case in study.cases.items()
    }
    described = {
        name: layout_meta(layout_of(resolved), dataset.axes, dataset.itemsize)
        for name, resolved in study.layouts.items()
    }
    return {
        "name": study.name,
        "title": study.study.title,
        "source": study.study.source,
        "axes": list(dataset.axes),
        "shape": list(dataset.shape),
        "dtype": dataset.dtype,
        "itemsize": dataset.itemsize,
        "raw_bytes": dataset.nbytes,
        **({"rows": dataset.rows.words()} if dataset.rows else {}),
        "fill": f"donor {_donor(dataset.donor)}" if dataset.donor else dataset.fill,
        "layouts": described,
        "cases": cases,
        "rounds": study.study.first_rounds,
        # Only where it says something, or every study's report would be made again.
        **({"most_rounds": study.study.most_rounds} if study.study.adaptive else {}),
        "states": list(study.study.recommendation.states),
        "size_bound": study.study.recommendation.size_bound,
        "tradeoff": study.tradeoff,
        "published": study.study.published,
        "settings_vary": settings_vary(study),
        **prices_meta(study),
    }


def prices_meta(study: LoadedStudy) -> dict[str, Any]:
    """Return the prices of a study, for figures and report alike; nothing where it has none."""
    prices = study.study.prices
    return {"prices": prices.model_dump(mode="json")} if prices else {}


def _donor(donor: DonorFile) -> str:
    """Return a donor's path, and which file a variable in it stands for."""
    found = identity(donor.model_dump())
    return f"{donor.path} ({found})" if found else donor.path


def case_title(study: Meta, case: str) -> str:
    """Return the title of a case, or its name where the study has none."""
    return str(study["cases"].get(case, {}).get("title") or case)


def in_order(names: set[str], order: Collection[str]) -> list[str]:
    """Return `names` in this order; those it does not know follow, sorted."""
    return [name for name in order if name in names] + sorted(names - set(order))
