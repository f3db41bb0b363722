"""Studies whose layouts are found by advice: what they ask, and the study that was made of it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from hyperslab.studies.advice_schema import AdviceStudy
from hyperslab.validation.errors import ConfigurationError, validate
from hyperslab.validation.yaml_files import read_yaml

KEY = "advise"
# In the results of such a study: the study that measures, and what was predicted.
STUDY, PREDICTION = "study.yaml", "prediction.json"
# The first line of a study that advice has made, before the digest of what was asked.
MADE_FOR = "# Made by advice for "


def asks(file: Path) -> bool:
    """Tell whether a study's file asks for advice; raises ConfigurationError for one that cannot be read."""
    content = read_yaml(file)
    return isinstance(content, dict) and KEY in content


def question(file: Path) -> AdviceStudy:
    """Return what a study that asks for advice says; raises ConfigurationError."""
    return validate(AdviceStudy, read_yaml(file), file)


def place(name: str, results: Path = Path("results")) -> Path:
    """Return where the study lies that advice makes of the one called `name`."""
    return results / name / STUDY


def prediction(name: str) -> Path:
    """Return where that which was predicted for the study called `name` lies, if it was made by advice."""
    return Path("results") / name / PREDICTION


def own_chunks(name: str, layout: str) -> list[int] | None:
    """Return the chunks that a layout has in the user's file, where the study called `name` cut them to the
    part that advice measures; None of any other layout.
    """
    try:
        told = json.loads(prediction(name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return told.get("own_chunks") if told["today"] == layout and told.get("shorter_chunks") else None


def head(asked: AdviceStudy) -> str:
    """Return the first line of a study that is made of what is asked."""
    text = json.dumps([asked.title, asked.advise.asked()], sort_keys=True)
    return MADE_FOR + hashlib.sha256(text.encode()).hexdigest()[:16]


def is_made(file: Path, results: Path = Path("results")) -> bool:
    """Tell whether advice has made a study of what a file asks today; raises ConfigurationError."""
    made = place(file.stem, results)
    return made.exists() and made.read_text(encoding="utf-8").startswith(head(question(file)) + "\n")


def made_of(file: Path, results: Path = Path("results")) -> Path:
    """Return where the study lies that advice has made of what a file asks today.

    Raises ConfigurationError where there is none.
    """
    if not is_made(file, results):
        message = "its sites have not been probed for what it asks; build its report, and not as a dry run"
        raise ConfigurationError(file, KEY, message)
    return place(file.stem, results)


def content(file: Path) -> Any:
    """Return the content of the study that advice has made of `file`; raises ConfigurationError."""
    return read_yaml(made_of(file))
