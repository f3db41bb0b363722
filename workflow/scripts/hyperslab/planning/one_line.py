"""How a mistake ends a run: one line on standard error, and exit status 1."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NoReturn, ParamSpec, TypeVar

from hyperslab.validation.errors import ConfigurationError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def in_one_line(
    make: Callable[Parameters, Result], *arguments: Parameters.args, **options: Parameters.kwargs
) -> Result:
    """Return what `make` returns; where it raises ConfigurationError, the process ends with its line."""
    try:
        return make(*arguments, **options)
    except ConfigurationError as error:
        end(error)


def end(error: ConfigurationError) -> NoReturn:
    """End the process with the line of a mistake."""
    sys.stderr.write(f"hyperslab: {error}\n")
    sys.stderr.flush()
    # Snakemake would wrap any exception in a traceback of the Snakefile.
    os._exit(1)
