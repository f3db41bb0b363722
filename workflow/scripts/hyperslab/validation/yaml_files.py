"""YAML files of configuration, refused where YAML would read something else than was written."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import Composer

from hyperslab.validation.errors import ConfigurationError

LARGEST_BYTES = 16 * 2**20
# What YAML 1.1 takes for octal and for base 60, as in 1:30 h, and YAML 1.2 no longer does.
OCTAL = re.compile(r"([-+]?)0[0-7_]*[1-7][0-7_]*")
SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
Path_ = tuple[str, ...]


def read_yaml(file: Path) -> Any:
    """Return the content of a YAML file.

    Raises ConfigurationError where the file is missing or endless, and for what `parsed` refuses.
    """
    try:
        text = _text(file)
    except FileNotFoundError:
        raise ConfigurationError(file, "", "there is no such file") from None
    except OSError as error:
        raise ConfigurationError(file, "", f"cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigurationError(file, "", f"not valid YAML: {error}") from None
    return parsed(text, file)


def parsed(text: str, file: Path) -> Any:
    """Return the content of a text of YAML, of which messages speak as of `file`.

    Raises ConfigurationError where it is not YAML, has a key twice, or a number that YAML takes for another
    one than a reader does.
    """
    try:
        # Whoever reads it may change it.
        return deepcopy(_content(text))
    except ConfigurationError as error:
        raise ConfigurationError(file, error.path, error.message) from None


@lru_cache(maxsize=256)
def _content(text: str) -> Any:
    """Return the content of a text of YAML; raises ConfigurationError, of no file.

    Kept, since PyYAML takes long for it, and a study that others extend is read for each of them.
    """
    try:
        loader, node = _composed(text)
        if node is None:
            return None
        for inner, path in _nodes(node):
            if isinstance(inner, yaml.MappingNode):
                _refuse_twins(inner, path)
            elif isinstance(inner, yaml.ScalarNode) and (wrong := _misread(inner)):
                raise ConfigurationError("", ".".join(path), wrong)
        return loader.construct_document(node)
    except RecursionError:
        raise ConfigurationError("", "", "not valid YAML: nested too deeply") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise ConfigurationError("", "", f"not valid YAML: {error.problem}{where}") from None
    # PyYAML lets what int(), datetime() and its own tables raise for a bad scalar through.
    except (yaml.YAMLError, ValueError, KeyError, AttributeError) as error:
        raise ConfigurationError("", "", f"not valid YAML: {error}") from None


if yaml.__with_libyaml__:

    class _Quick(Composer, yaml.CSafeLoader):
        """PyYAML's loader with libyaml's parser, which takes a fraction of the time.

        Nodes are put together by PyYAML, since libyaml ends the process where they are nested too deeply.
        """

        def __init__(self, text: str) -> None:
            Composer.__init__(self)
            yaml.CSafeLoader.__init__(self, text)


def _composed(text: str) -> tuple[Any, yaml.Node | None]:
    """Return a loader, and the node that it finds in a text."""
    if yaml.__with_libyaml__:
        # What this one refuses the other one takes, or says in its own words.
        with suppress(yaml.YAMLError, ValueError):
            quick = _Quick(text)
            return quick, quick.get_single_node()
    loader = yaml.SafeLoader(text)
    return loader, loader.get_single_node()


def _text(file: Path) -> str:
    """Return the text of a file; raises ConfigurationError for a pipe, which would wait, or without end."""
    found = file.stat()
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise ConfigurationError(file, "", "is not a file that can be read twice, but a pipe or a device")
    if found.st_size > LARGEST_BYTES:
        raise ConfigurationError(file, "", f"is larger than any configuration ({found.st_size:,} bytes)")
    return file.read_text(encoding="utf-8")


def _nodes(root: yaml.Node) -> Iterator[tuple[yaml.Node, Path_]]:
    """Yield every node with its path, each once: an alias may lead to the node around it."""
    waiting: list[tuple[yaml.Node, Path_]] = [(root, ())]
    seen: set[int] = set()
    while waiting:
        node, path = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node, path
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inside = (*path, str(key.value))
                waiting += [(value, inside), (key, inside)]
        elif isinstance(node, yaml.SequenceNode):
            waiting += [(item, (*path, str(position))) for position, item in enumerate(node.value)]


def _refuse_twins(node: yaml.MappingNode, path: Path_) -> None:
    """Raise ConfigurationError for a key given twice, of which PyYAML takes the last."""
    lines: dict[tuple[str, str], int] = {}
    for key, _ in node.value:
        name, line = str(key.value), key.start_mark.line + 1
        if isinstance(key, yaml.ScalarNode) and (key.tag, name) in lines:
            message = f"this key is given twice, in lines {lines[key.tag, name]} and {line}"
            raise ConfigurationError("", ".".join((*path, name)), message)
        lines[key.tag, name] = line


def misread(text: str) -> str:
    """Return what is wrong with the first number of a text of YAML that is another one than written, or with
    the first key that is given twice; "" for none. Raises yaml.YAMLError.
    """
    root = yaml.compose(text, yaml.SafeLoader)
    nodes = (node for node, _ in _nodes(root)) if root else ()
    wrong = (_misread(node) if isinstance(node, yaml.ScalarNode) else _twice(node) for node in nodes)
    return next(filter(None, wrong), "")


def _twice(node: yaml.Node) -> str:
    """Return that a mapping has a key twice, of which PyYAML takes the last; "" if not."""
    names = [str(key.value) for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []
    twins = (name for at, name in enumerate(names) if name in names[:at])
    return next((f"{name} is given twice" for name in twins), "")


def _misread(node: yaml.ScalarNode) -> str:
    """Return what is wrong with a number such as 0200 or 1:30, which is 128 or 90 in YAML 1.1; "" if not."""
    written = str(node.value)
    if node.style or node.tag not in NUMBERS:
        return ""
    octal = OCTAL.fullmatch(written)
    if not octal and not SEXAGESIMAL.fullmatch(written):
        return ""
    number = yaml.safe_load(written)
    plain = f"{octal[1]}{written.lstrip('+-0')}" if octal else str(number)
    why = "octal" if octal else "base 60"
    return f"{written} is {number} in YAML ({why}); write {plain}, or {written!r} in quotes"
