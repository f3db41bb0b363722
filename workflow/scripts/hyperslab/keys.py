"""Every key of a study, of a file of sites and of config.yaml, as the models have them: docs/keys.md.

python -m hyperslab.keys > docs/keys.md
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hyperslab.layouts import FORMATS, schema_of
from hyperslab.layouts.hdf5_filters import FILTERS
from hyperslab.layouts.hdf5_settings_schema import Settings
from hyperslab.layouts.hsds_schema import HsdsSettings
from hyperslab.layouts.idx_schema import IdxSettings
from hyperslab.layouts.opendap_schema import OpendapSettings
from hyperslab.layouts.parameters import Parametrised
from hyperslab.layouts.zarr_codecs import CODECS
from hyperslab.layouts.zarr_schema import ZarrSettings
from hyperslab.planning.claims_page import Untested
from hyperslab.planning.run_configuration import RunConfiguration
from hyperslab.sites.schema import Sites
from hyperslab.studies.advice_schema import AdviceStudy
from hyperslab.studies.schema import Study
from hyperslab.validation.errors import NAME_PATTERN, Forms
from hyperslab.validation.models import LARGEST_WHOLE


def layout_models() -> list[type[BaseModel]]:
    """Return what a layout may say, a model for each format."""
    return [schema_of(name).MODEL for name in FORMATS]


# Title of a file -> the models of what stands in it, each followed by those that it holds.
FILES: dict[str, tuple[type[BaseModel], ...]] = {
    "A study: `config/studies/NAME.yaml`": (
        Study,
        *layout_models(),
        Settings,
        ZarrSettings,
        IdxSettings,
        HsdsSettings,
        OpendapSettings,
    ),  # fmt: skip
    "A study that asks for advice: `config/studies/advice-NAME.yaml`": (AdviceStudy,),
    "Claims that no study tests: `config/claims/untested.yaml`": (Untested,),
    "Sites: `config/sites.yaml`": (Sites,),
    "A run: `config/config.yaml`, and `--config KEY=VALUE`": (RunConfiguration,),
}
# Title of a table -> the filters or codecs in it.
PARAMETRISED: dict[str, Mapping[str, Parametrised]] = {"filter of HDF5": FILTERS, "codec of Zarr": CODECS}
HEAD = """# Keys

Every key that a configuration may have, made from the models that check it:
`PYTHONPATH=workflow/scripts .venv/bin/python -m hyperslab.keys > docs/keys.md`. A study may also have
`extends`, the name of another study: `dataset`, `settings` and `repeats` are merged with its own, every other
key replaces that of the other; of its claims those that `keep_claims` names are judged, too. A name begins
with a letter or digit and has up to 100 letters, digits and `_ . + -`.
"""
NAME = "name"
# Names that Python gives to what a reader of YAML calls otherwise.
PLAIN: Mapping[Any, str] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    type(None): "",
    date: "date, such as 2013-01-31",
    Any: "anything",
}


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that an annotation allows somewhere inside."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models_in(argument)


def kind(annotation: Any, extras: tuple[Any, ...] = ()) -> str:
    """Return in words what an annotation allows; `extras` are the constraints beside it."""
    if forms := next((extra.text for extra in extras if isinstance(extra, Forms)), ""):
        return forms
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return kind(arguments[0], (*arguments[1:], *extras))
    if origin is Literal:
        return " or ".join(f"`{value}`".replace("True", "true") for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(filter(None, (kind(argument, extras) for argument in arguments)))
    if origin is list:
        return f"list: {kind(arguments[0])}"
    if origin is dict:
        return f"mapping of {kind(arguments[0])} to {kind(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"[{annotation.__name__}](#{annotation.__name__.lower()})"
    words = PLAIN[annotation] + (_bounds(extras) if annotation in (int, float, str) else "")
    return words.removeprefix("text") if words.endswith(NAME) else words


def _bounds(extras: tuple[Any, ...]) -> str:
    """Return the constraints of a number or a text in words."""
    found: dict[str, Any] = {}
    for extra in extras:
        parts = extra.metadata if isinstance(extra, FieldInfo) else [extra]
        for part in parts:
            for name in ("gt", "ge", "lt", "le"):
                if getattr(part, name, None) is not None:
                    found[name] = getattr(part, name)
            if getattr(part, "pattern", None) == NAME_PATTERN:
                return NAME
    low = f"above {found['gt']:g}" if "gt" in found else ""
    if not low and found.get("ge", -LARGEST_WHOLE) != -LARGEST_WHOLE:
        low = f"from {found['ge']:g}"
    high = f"to {found['le']:,.10g}" if found.get("le", LARGEST_WHOLE) < LARGEST_WHOLE else ""
    words = " ".join(filter(None, (low, high)))
    return f" {words}" if words else ""


def _default(field: FieldInfo) -> str:
    """Return a field's default as YAML has it, "" for one that has to be given or stays out."""
    value = field.default
    if field.is_required() or value is None or isinstance(value, BaseModel):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, dict) and any(isinstance(entry, BaseModel) for entry in value.values()):
        return "`{}`"
    return f"`[{', '.join(map(str, value))}]`" if isinstance(value, list) else f"`{value!r}`".replace("'", "")


def table(model: type[BaseModel]) -> Iterator[str]:
    """Yield the lines of the section of a model."""
    yield f"### {model.__name__}\n"
    about = " ".join((model.__doc__ or "").split("\n\n")[0].split())
    yield f"{about}\n"
    yield "| key | what it may be | default | meaning |"
    yield "|---|---|---|---|"
    for name, field in model.model_fields.items():
        allowed = kind(field.annotation, tuple(field.metadata)).replace("|", "\\|")
        required = " (required)" if field.is_required() else ""
        yield f"| `{name}`{required} | {allowed} | {_default(field)} | {field.description} |"
    yield ""


def lines() -> Iterator[str]:
    """Yield the lines of the page."""
    yield HEAD
    seen: set[type[BaseModel]] = set()
    for title, first in FILES.items():
        yield f"## {title}\n"
        waiting = list(first)
        while waiting:
            model = waiting.pop(0)
            if model in seen:
                continue
            seen.add(model)
            yield from table(model)
            waiting[:0] = [
                inner for field in model.model_fields.values() for inner in models_in(field.annotation)
            ]
    yield "## Filters and codecs\n"
    yield "What each of them takes; a single value in a study means the first parameter."
    for title, kinds in PARAMETRISED.items():
        yield f"\n| {title} | parameters |"
        yield "|---|---|"
        yield from (
            f"| `{name}` | {', '.join(f'`{key}`' for key in known.parameters)} |"
            for name, known in kinds.items()
        )


def text() -> str:
    """Return the page."""
    return "\n".join(lines()) + "\n"


def main() -> None:
    """Run the command."""
    print(text(), end="")


if __name__ == "__main__":
    main()
