"""Docstrings of functions: sentences that begin with a verb."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from test_environments import module_files, nodes_of

Function = ast.FunctionDef | ast.AsyncFunctionDef
# Verbs in the imperative, as they stand at the beginning; a new one is added here.
IN_ORDER = """
    Add Answer Apply Ask Be Become Begin Bring Build Call Cancel Check Choose Close Collect Compare
    Compress Compute Copy Create Cut Decide Describe Divide Do Draw Drop Empty End Evict Expand Fill Find
    Fit Flush Free Give Go Hand Have Hold Import Judge Keep Leave Let Limit Live Load Look Make Mark
    Measure Merge Mount Move Note Open Pack Parse Pass Patch Predict Print Probe Put Raise Read Refuse
    Release Remove
    Replace Resolve Return Run Say Select Send Serve Set Show Split Stack Start Stop Store Submit Take
    Tell Time Try Turn Unmount Unpack Wait Warn Write Yield
    """
VERBS = set(IN_ORDER.split())


def functions_of(module: str) -> Iterator[Function]:
    """Yield the functions and methods of a module; a property is called by a noun, as an attribute is."""
    for node in nodes_of(module_files()[module]):
        if isinstance(node, Function):
            decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
            if not decorators & {"property", "cached_property", "setter"}:
                yield node


def mistake(said: str) -> str | None:
    """Return what is wrong with a docstring, or None."""
    first = said.split("\n\n")[0].rstrip()
    word = first.split()[0].rstrip(",;:")
    if word not in VERBS:
        return f"{word!r} is no verb that is known here"
    return None if first.endswith((".", ":")) else "its first sentence has no full stop"


def test_a_verb_and_a_full_stop_are_asked_for() -> None:
    assert mistake("Return the sum.\n\n    Of all.") is None
    assert mistake("The sum of all.") == "'The' is no verb that is known here"
    assert mistake("Return the sum") == "its first sentence has no full stop"


def test_docstrings_are_sentences_that_begin_with_a_verb() -> None:
    wrong = {
        f"{module}.{node.name}, line {node.lineno}": why
        for module in sorted(module_files())
        for node in functions_of(module)
        if (said := ast.get_docstring(node)) and (why := mistake(said))
    }
    assert wrong == {}
