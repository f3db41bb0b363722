"""One clear line for every mistake in configuration: the file, the path inside it, what is wrong, what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

Model = TypeVar("Model", bound=BaseModel)


class ConfigurationError(Exception):
    """A mistake in a configuration file; its text is the one line that the user reads."""

    def __init__(self, file: str | Path, path: str, message: str) -> None:
        super().__init__(f"{file}: {path + ': ' if path else ''}{message}")


def read_yaml(file: Path) -> Any:
    """The content of a YAML file; raises ConfigurationError where it is missing or not YAML."""
    try:
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(file, "", "there is no such file") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(file, "", "not valid YAML: " + " ".join(str(error).split())) from None


def validate(model: type[Model], content: Any, file: Path) -> Model:
    """`content` as a `model`; raises ConfigurationError with the first mistake."""
    if not isinstance(content, dict):
        raise ConfigurationError(file, "", "expected a mapping of keys to values")
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise _first(error, model, file) from None


def _first(error: ValidationError, model: type[BaseModel], file: Path) -> ConfigurationError:
    # A misspelt key is the cause of whatever else is missing, so it is named first.
    details = sorted(error.errors(), key=lambda detail: detail["type"] != "extra_forbidden")[0]
    path = ".".join(str(part) for part in details["loc"] if not str(part).startswith("function-"))
    message = details["msg"].removeprefix("Value error, ")
    if details["type"] == "extra_forbidden":
        allowed = _keys_at(model, details["loc"][:-1])
        message = "unknown key" + (f"; allowed are {', '.join(sorted(allowed))}" if allowed else "")
    elif details["type"] == "missing":
        message = "this key is required"
    elif "input" in details and isinstance(details["input"], (str, int, float, bool)):
        message += f", not {details['input']!r}"
    return ConfigurationError(file, path, " ".join(message.split()))


def _keys_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """The keys allowed in the mapping at `location` of a model."""
    current: Any = model
    for part in location:
        field = getattr(current, "model_fields", {}).get(part)
        if field is not None:
            current = _model_in(field.annotation)
        # A dictionary's key or a list's position leaves the model as it is.
    return list(getattr(current, "model_fields", {}))


def _model_in(annotation: Any) -> Any:
    """The first model named in an annotation such as dict[str, Layout]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        if (found := _model_in(argument)) is not None:
            return found
    return None
