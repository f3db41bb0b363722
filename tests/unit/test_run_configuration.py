"""What config.yaml and --config say of a run: every key in its kind, or one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperslab.planning.run_configuration import RunConfiguration, check_file, checked
from hyperslab.validation.errors import ConfigurationError

FILE = Path(__file__).parents[2] / "config" / "config.yaml"
GIVEN: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))


def said(config: dict[str, Any], *arguments: str) -> str:
    """The one line about a configuration."""
    with pytest.raises(ConfigurationError) as error:
        checked(config, arguments)
    text = str(error.value)
    assert text.splitlines() == [text]
    return text


def test_the_file_has_every_key_and_no_other() -> None:
    check_file(FILE)
    assert GIVEN.keys() == RunConfiguration.model_fields.keys()
    defaults = {
        name: field.default for name, field in RunConfiguration.model_fields.items() if name != "study"
    }
    found = checked(GIVEN, ())
    assert {name: found[name] for name in defaults if name != "style"} == {
        name: value for name, value in defaults.items() if name != "style"
    }
    assert found["style"] == {}


@pytest.mark.parametrize("word", ["false", "False", "FALSE", "no", "off", "0", 0, False])
def test_false_is_false_however_it_is_written(word: object) -> None:
    for key in ("measure", "fork", "local"):
        assert checked({**GIVEN, key: word}, ())[key] is False


@pytest.mark.parametrize("word", ["true", "True", "yes", "on", "1", 1, True])
def test_true_is_true_however_it_is_written(word: object) -> None:
    assert checked({**GIVEN, "measure": word}, ())["measure"] is True


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "misspelt value": (
        {"measure": "flase"},
        "measure: should be true or false, not 'flase'; did you mean false?",
    ),
    "misspelt key": (
        {"mesure": False},
        "mesure: unknown key; allowed are ",
    ),
    "nothing": ({"measure": None}, "measure: should be true or false, not None"),
    "a list": ({"measure": [False]}, "measure: should be true or false, not [False]"),
    "two": ({"measure": 2}, "measure: should be true or false, not 2"),
    "a path as study": ({"study": "../quick"}, "study: should begin with a letter or digit and consist of"),
    "no study": ({"study": None}, "study: should begin with a letter or digit"),
    "a list as study": ({"study": ["quick"]}, "study: should be a valid string"),
    "aggregate": ({"aggregate": "hree"}, "aggregate: should be 'here' or 'cluster', not 'hree'"),
    "remeasure": ({"remeasure": {"a": 1}}, "remeasure: should be a valid string"),
    "no sites": ({"sites": ""}, "sites: should have at least 1 character"),
    "style": ({"style": {"colour": "red"}}, "style.colour: unknown key; allowed are width, dpi, font, "),
    "style's value": ({"style": {"heat": "jet"}}, "style.heat: should be one of viridis, plasma"),
    "style's text": ({"style": {"width": "wide"}}, "style.width: should be a valid number"),
    "style as text": ({"style": "dark"}, "style: should be a mapping of keys to values, not 'dark'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_a_command_line_gives_wrongly_is_one_line(case: str) -> None:
    changes, expected = WRONG[case]
    assert said({**GIVEN, **changes}).startswith(f"--config: {expected}")
    if case == "misspelt key":
        assert said({**GIVEN, **changes}).endswith("; did you mean measure or remeasure?")


def test_texts_may_look_like_numbers_and_be_empty() -> None:
    found = checked({**GIVEN, "study": 2024, "remeasure": None, "site": None, "mpi": None}, ())
    assert (found["study"], found["remeasure"], found["site"], found["mpi"]) == ("2024", "", "", "")


@pytest.mark.parametrize(
    "second", [("--config", "study=quick"), ("-C", "study=quick"), ("--config=study=quick",)]
)
def test_a_second_config_would_hide_the_first(second: tuple[str, ...]) -> None:
    line = said(GIVEN, "--config", "measure=false", *second)
    assert line == (
        "--config: is given twice, of which Snakemake takes the last; write every KEY=VALUE after one"
    )


def test_only_a_run_inside_a_batch_knows_its_keys() -> None:
    assert checked({**GIVEN, "batched": "node", "batch": "r0of1"}, ())["batched"] == "node"
    assert "batched" not in checked(GIVEN, ())


FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "expected a mapping of keys to values"),
    "without study": (b"measure: true\n", "study: this key is required"),
    "unknown key": (b"study: quick\nmesure: false\n", "mesure: unknown key; allowed are study, sites"),
    "key twice": (
        b"study: quick\nmeasure: true\nmeasure: false\n",
        "measure: this key is given twice, in lines",
    ),
    "not UTF-8": (b"study: \xff\n", "not valid YAML: 'utf-8' codec can't decode"),
    "not YAML": (b"study: [", "not valid YAML: "),
    "wrong value": (b"study: quick\nmeasure: flase\n", "measure: should be true or false, not 'flase'"),
}


@pytest.mark.parametrize("case", FILES)
def test_a_wrong_file_is_one_line_that_names_it(tmp_path: Path, case: str) -> None:
    content, expected = FILES[case]
    (tmp_path / "config.yaml").write_bytes(content)
    with pytest.raises(ConfigurationError) as error:
        check_file(tmp_path / "config.yaml")
    text = str(error.value)
    assert text.splitlines() == [text]
    assert text.startswith(f"{tmp_path}/config.yaml: {expected}")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"config\.yaml: there is no such file"):
        check_file(tmp_path / "config.yaml")
