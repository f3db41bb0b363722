"""A study's content on top of that of the study which it extends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hyperslab.studies import advised
from hyperslab.studies.schema import Study
from hyperslab.validation.errors import ConfigurationError, validate
from hyperslab.validation.nearest import choices
from hyperslab.validation.yaml_files import read_yaml

# Of these a study's own keys are merged with the other's; every other key replaces the other's.
MERGED = ("dataset", "settings", "repeats")


def extended(file: Path, seen: tuple[Path, ...] = ()) -> Any:
    """Return the content of a study's file, merged with that of the study which it `extends`.

    Of one that asks for advice it is the study that advice has made of it. `seen` are the studies that led to
    this one. Raises ConfigurationError with the file of the mistake.
    """
    content = read_yaml(file)
    if isinstance(content, dict) and advised.KEY in content:
        return advised.content(file)
    if isinstance(content, dict) and "keep_claims" in content and "extends" not in content:
        raise ConfigurationError(
            file, "keep_claims", "keeps claims of a study that this one extends, and there is none"
        )
    if not isinstance(content, dict) or "extends" not in content:
        return content
    name = content.pop("extends")
    files = {path.stem: path for path in sorted(file.parent.glob("*.yaml"))}
    files[file.stem] = file
    if not isinstance(name, str) or name not in files:
        others = [other for other in files if other != file.stem]
        message = f"{name!r} is not another study; there are {choices(name, others)}"
        raise ConfigurationError(file, "extends", message)
    way = [*seen, file]
    if files[name] in way:
        round_ = [*way[way.index(files[name]) :], files[name]]
        steps = (f"{a.stem} extends {b.stem}" for a, b in zip(round_, round_[1:], strict=False))
        raise ConfigurationError(round_[0], "extends", f"goes in a circle: {', '.join(steps)}")
    merged = extended(files[name], tuple(way))
    # A mistake in the other study is one of its own file.
    validate(Study, merged, files[name])
    array, donor = content.get("dataset"), merged["dataset"].get("donor")
    if donor and isinstance(array, dict) and "fill" in array and "donor" not in array:
        message = f"the donor of {name} fills the array all the same; `donor: null` leaves it out"
        raise ConfigurationError(file, "dataset.fill", message)
    claims = merged.pop("claims", {})
    merged.pop("keep_claims", None)
    kept, own = _kept(file, content, claims), content.get("claims", {})
    content["claims"] = {**kept, **own} if isinstance(own, dict) else own
    for key in MERGED:
        if isinstance(content.get(key), dict) and isinstance(merged.get(key), dict):
            content[key] = {**merged[key], **content[key]}
    return {**merged, **content}


def _kept(file: Path, content: dict[str, Any], claims: dict[str, Any]) -> dict[str, Any]:
    """Return the other study's claims that are judged by this one's rows, too: those that it names."""
    kept = content.get("keep_claims") or []
    if not isinstance(kept, list):
        return {}
    for position, name in enumerate(kept):
        if not isinstance(name, str) or name not in claims:
            known = choices(str(name), claims)
            message = f"{name!r} is no claim of the study that this one extends; it has {known}"
            raise ConfigurationError(file, f"keep_claims.{position}", message)
    return {name: claims[name] for name in kept}


@contextmanager
def naming_source(file: Path) -> Iterator[None]:
    """Have a mistake at a key that the study of a file has from another one say from which.

    The block raises ConfigurationError.
    """
    try:
        yield
    except ConfigurationError as error:
        key = error.path.split(".")[0]
        source = _source(file, key) if error.file == file and key else None
        if source is None:
            raise
        field = Study.model_fields.get(key)
        without = f"; `{key}: null` leaves it out" if field and field.default is None else ""
        message = f"{error.message} (inherited from {source}{without})"
        raise ConfigurationError(file, error.path, message) from None


def _source(file: Path, key: str) -> str | None:
    """Return the study from which that of a file has a key; None for one of its own."""
    content, source = read_yaml(file), None
    while isinstance(content, dict) and key not in content and "extends" in content:
        source = content["extends"]
        content = read_yaml(file.with_name(f"{source}.yaml"))
    return source
