"""Errors of libraries as errors of the file, which are one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def said_plainly(
    call: Callable[[], Any], errors: tuple[type[Exception], ...], told: Callable[[Exception], OSError]
) -> Callable[[], Any]:
    """Return a call that raises what `told` makes of these `errors`; it costs one frame."""

    def called() -> Any:
        try:
            return call()
        except MemoryError:
            raise
        except errors as error:
            raise told(error) from None

    return called
