"""The command line that loop_file_systems.py and network_file_systems.py share: actions on one directory."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path


class FileSystemError(Exception):
    """What is wrong, in one line for the user."""


class CommandLine:
    """Actions of a script, each of which takes the directory that holds everything."""

    def __init__(self, script: str, description: str | None, explanation: str) -> None:
        self.name = Path(script).name
        raw = argparse.RawDescriptionHelpFormatter
        self._parser = argparse.ArgumentParser(
            description=description, epilog=explanation, formatter_class=raw
        )
        self._actions = self._parser.add_subparsers(dest="action", required=True)

    def action(self, name: str, explained: str) -> argparse.ArgumentParser:
        """Return another action; what it takes beside the directory can be added to it."""
        return self._actions.add_parser(name, help=explained)

    def run(self, missing: Callable[[], str | None], perform: Callable[[argparse.Namespace], None]) -> int:
        """Parse, and perform the action unless something is missing; 1 and one line on stderr on failure."""
        self._actions.metavar = "|".join(self._actions.choices)
        for action in self._actions.choices.values():
            action.add_argument("--dir", type=Path, required=True, help="directory that holds everything")
        options = self._parser.parse_args()
        try:
            if problem := missing():
                raise FileSystemError(problem)
            options.dir = options.dir.resolve()
            perform(options)
        except (FileSystemError, OSError) as error:
            print(f"{self.name}: {error}", file=sys.stderr)
            return 1
        return 0
