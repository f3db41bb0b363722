"""docs/keys.md and the table of docs/studies.md speak of the keys that the models have, and of each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from hyperslab import keys
from hyperslab.planning.run_configuration import InnerConfiguration
from hyperslab.studies.dataset_schema import Dataset
from hyperslab.studies.schema import Case, Recommendation, Score, Study
from hyperslab.validation.models import Strict

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "keys.md").read_text(encoding="utf-8")
STUDIES = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")


def below(model: type[BaseModel]) -> set[type[BaseModel]]:
    """The models made of this one, of the package alone."""
    return {
        inner
        for child in model.__subclasses__()
        if child.__module__.startswith("hyperslab.")
        for inner in (child, *below(child))
    }


MODELS = sorted(below(Strict) - {InnerConfiguration}, key=lambda model: model.__name__)


def test_the_page_is_made_of_the_models() -> None:
    assert keys.text() == PAGE, "make it anew: python -m hyperslab.keys > docs/keys.md"


@pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model.__name__))
def test_every_key_has_a_meaning(model: type[BaseModel]) -> None:
    assert model.__doc__
    assert [name for name, field in model.model_fields.items() if not field.description] == []


def test_every_model_of_a_configuration_is_on_the_page() -> None:
    assert len(MODELS) > 25
    # They are what the models of the formats are made of.
    absent = [model.__name__ for model in MODELS if f"### {model.__name__}\n" not in PAGE]
    assert absent == ["LayoutModel", "WithParameters"]


def test_a_key_in_bytes_or_seconds_says_so() -> None:
    for model in MODELS:
        for name, field in model.model_fields.items():
            if name.endswith("_bytes"):
                assert "bytes" in str(field.description), (model.__name__, name)
            if name == "minutes":
                assert "minutes" in str(field.description)


def test_links_of_the_page_lead_somewhere() -> None:
    headings = {heading.lower() for heading in re.findall(r"^### (\w+)$", PAGE, re.MULTILINE)}
    assert set(re.findall(r"\]\(#(\w+)\)", PAGE)) <= headings


def test_the_usual_keys_are_those_of_the_models() -> None:
    table = STUDIES.split("| key | meaning |\n|---|---|\n")[1].split("\n\n")[0]
    named = [key for row in table.splitlines() for key in re.findall(r"`([\w.]+)`", row.split("|")[1])]
    assert len(named) > 8
    layout = {name for model in keys.layout_models() for name in model.model_fields}
    inside: dict[str, type[BaseModel]] = {
        "dataset": Dataset,
        "score": Score,
        "recommendation": Recommendation,
        "cases": Case,
    }
    for key in named:
        first, _, last = key.partition(".")
        assert first in {"extends", *Study.model_fields, *layout}, key
        assert not last or last in inside[first].model_fields, key
