"""One clear line for every mistake in configuration: file, path inside it, what is wrong, what is allowed."""

from __future__ import annotations

import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from hyperslab.validation.nearest import did_you_mean

Model = TypeVar("Model", bound=BaseModel)
Location = tuple[int | str, ...]

SHOWN_CHARACTERS = 60
# Errors whose own text speaks of Python; any other text of pydantic's follows "Input should".
MESSAGES = {
    "missing": "this key is required",
    "dict_type": "should be a mapping of keys to values",
    "model_type": "should be a mapping of keys to values",
    "invalid_key": "should be text; put it in quotes",
}
LONGEST_NAME = 100
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$"
NAME_RULE = "should begin with a letter or digit and consist of letters, digits and _ . + -"


def name_mistake(name: str) -> str | None:
    """Return what is wrong with a name, None where nothing is."""
    if len(name) > LONGEST_NAME:
        return f"should have at most {LONGEST_NAME} characters, not {_shown(name)}"
    return None if re.fullmatch(NAME_PATTERN, name) else f"{NAME_RULE}, not {_shown(name)}"


def _shown(found: str | int | float) -> str:
    """Return what was found, cut where it is too long to help."""
    shown = repr(found) if isinstance(found, str) else str(found)
    return shown if len(shown) <= SHOWN_CHARACTERS else shown[:SHOWN_CHARACTERS] + " …"


@dataclass(frozen=True)
class Forms:
    """Beside a field's type: what is allowed there in one sentence, which pydantic says form by form."""

    text: str


class ConfigurationError(Exception):
    """A mistake in a configuration file; its text is the one line that the user reads."""

    def __init__(self, file: str | Path, path: str, message: str) -> None:
        self.file, self.path, self.message = file, path, message
        # Keys and values may hold line breaks, the line that names them must not.
        super().__init__(f"{file}: " + " ".join(f"{path + ': ' if path else ''}{message}".split()))


@dataclass(frozen=True)
class Place:
    """Where something stands in a configuration file: the file, and the path inside it."""

    file: Path
    path: str = ""

    def at(self, *parts: str | int) -> Place:
        """Return a place inside this one."""
        return Place(self.file, ".".join(map(str, (*([self.path] if self.path else []), *parts))))

    def mistake(self, message: str) -> ConfigurationError:
        """Return the error that names this place."""
        return ConfigurationError(self.file, self.path, message)

    def validate(self, model: type[Model], content: Any) -> Model:
        """Return what stands here as a `model`; raises ConfigurationError for a mistake."""
        return validate(model, content, self.file, self.path)


def validate(model: type[Model], content: Any, file: Path, inside: str = "") -> Model:
    """Return `content`, found at the path `inside` of `file`, as a `model`;
    ConfigurationError for a mistake.
    """
    if not isinstance(content, dict):
        raise ConfigurationError(file, inside, "expected a mapping of keys to values")
    try:
        return model.model_validate(content)
    except ValidationError as error:
        path, message = _first(error.errors(include_url=False), model, content)
        raise ConfigurationError(file, ".".join(part for part in (inside, path) if part), message) from None


def _first(errors: Sequence[Mapping[str, Any]], model: type[BaseModel], content: Any) -> tuple[str, str]:
    """Return the path and message of the mistake to name first:
    a misspelt key causes whatever else is missing.
    """
    chosen = min(errors, key=lambda details: details["type"] != "extra_forbidden")
    location = _within(content, chosen)
    if chosen["type"] == "extra_forbidden":
        allowed = _keys_at(model, location[:-1])
        message = "unknown key" + (f"; allowed are {', '.join(allowed)}" if allowed else "")
        message += did_you_mean(location[-1], allowed)
    elif chosen["type"] not in ("missing", "value_error") and (described := _forms_on(model, location)):
        # Of a choice between several forms pydantic reports each; the deepest says where the mistake is.
        depth, allowed_forms = described
        parts = [details for details in errors if _within(content, details)[:depth] == location[:depth]]
        chosen = max(parts, key=lambda details: len(_within(content, details)))
        location = _within(content, chosen)
        message = f"expected {allowed_forms}" + _not(chosen)
    else:
        message = _message(chosen)
    return ".".join(map(str, location)), message


def _message(details: Mapping[str, Any]) -> str:
    if details["type"] == "missing":
        return MESSAGES["missing"]
    if details["type"] == "string_pattern_mismatch" and details["ctx"]["pattern"] == NAME_PATTERN:
        return NAME_RULE + _not(details)
    text = MESSAGES.get(details["type"], str(details["msg"]))
    for start in ("Value error, ", "Input ", "String "):
        text = text.removeprefix(start)
    # A message of a model's own may say already what was found.
    return text if ", not " in text else text + _not(details)


def _not(details: Mapping[str, Any]) -> str:
    """Return ", not ..." with what was found, where that is short enough to help."""
    found = details["input"]
    return f", not {_shown(found)}" if isinstance(found, str | int | float) else ""


def _within(content: Any, details: Mapping[str, Any]) -> Location:
    """Return the location of a mistake without pydantic's own parts: forms of a choice, validators."""
    kept: list[int | str] = []
    for part in details["loc"]:
        parts = dict(enumerate(content)) if isinstance(content, list) else content
        if isinstance(parts, dict) and part in parts:
            kept.append(part)
            content = parts[part]
    return (*kept, details["loc"][-1]) if details["type"] == "missing" else tuple(kept)


def _forms(annotation: Any) -> list[Any]:
    """Return the models, dictionaries and lists that an annotation allows."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _forms(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return [form for argument in get_args(annotation) for form in _forms(argument)]
    return [annotation]


def _inside(annotation: Any, part: int | str) -> tuple[Any, str | None]:
    """Return what an annotation allows at a key or position, and the forms that the field there may have."""
    for form in _forms(annotation):
        if isinstance(form, type) and issubclass(form, BaseModel):
            if field := form.model_fields.get(str(part)):
                forms = next((extra for extra in field.metadata if isinstance(extra, Forms)), None)
                return field.annotation, forms.text if forms else None
        elif get_origin(form) is dict:
            return get_args(form)[1], None
        elif get_origin(form) is list and isinstance(part, int):
            return get_args(form)[0], None
    return None, None


def _forms_on(model: type[BaseModel], location: Sequence[int | str]) -> tuple[int, str] | None:
    """Return the innermost forms on the way to a location, and how many parts lead to their field."""
    annotation: Any = model
    found = None
    for depth, part in enumerate(location, 1):
        annotation, forms = _inside(annotation, part)
        found = (depth, forms) if forms else found
    return found


def _keys_at(model: type[BaseModel], location: Sequence[int | str]) -> list[str]:
    """Return the keys allowed in the mapping at a location of a model,
    in the order in which they are documented.
    """
    annotation: Any = model
    for part in location:
        annotation, _ = _inside(annotation, part)
    return [key for form in _forms(annotation) for key in getattr(form, "model_fields", {})]
