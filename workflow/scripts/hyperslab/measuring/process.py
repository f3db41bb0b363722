"""What writing and measuring processes share: their options, their memory, and errors as one line."""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hyperslab.measuring import limits
from hyperslab.measuring.fork_parent import FORKED

LOOPBACK = ("127.0.0.1", "localhost")
# What Python says where a limit of processes, which counts threads, is reached.
NO_THREAD = "can't start new thread"


def arguments(description: str) -> argparse.ArgumentParser:
    """Return the options that writing and measuring share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--specification", required=True, help="the cell's specification as JSON")
    parser.add_argument(
        "--artifact", required=True, type=Path, help="the directory in which everything of the cell lies"
    )
    parser.add_argument("--donor", nargs="?", help="prepared donor (.npy) that fills the array, if any")
    return parser


def enter(environment: str | None) -> None:
    """Go on in the interpreter of a layout's own environment, if it has one and this is not it.

    `environment` is the file that says that it is complete. Raises FileNotFoundError where its interpreter is
    not there. The process stays the same one.
    """
    if environment is None:
        return
    wanted = interpreter_of(environment)
    # A virtual environment's Python is a link: what tells environments apart is their prefix.
    if Path(sys.prefix) == wanted.parent.parent:
        return
    if not wanted.exists():
        raise FileNotFoundError(f"the layout's own environment is not there: {wanted}")
    # Another interpreter is one that has just started, whoever was forked for it.
    os.environ.pop(FORKED, None)
    os.execv(wanted, [str(wanted), *sys.orig_argv[1:]])


def ask_itself_directly() -> None:
    """Have clients of this process and of those that it starts ask what listens on this machine without a
    proxy, whatever the environment says of one: it would see passwords, and reach another loopback.
    """
    for name in ("no_proxy", "NO_PROXY"):
        others = [one for one in os.environ.get(name, "").split(",") if one and one not in LOOPBACK]
        os.environ[name] = ",".join([*others, *LOOPBACK])


def proxy_of(address: str) -> str | None:
    """Return the proxy through which the environment has an address asked; None for none."""
    # Before most measurements nobody needs it.
    from urllib.parse import urlsplit
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(address)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


def interpreter_of(environment: str) -> Path:
    """Return the interpreter of a layout's own environment; `environment` as for `enter`."""
    return Path(environment).absolute().parent / "bin" / "python"


@contextmanager
def ends_in_one_line(command: str, artifact: Path, *expected: type[Exception]) -> Iterator[None]:
    """End the process with one line of `command` and its artifact where the block fails in a foreseen way.

    That is with one of `expected`, for want of memory, or because of the file system; else it raises.
    """
    foreseen: tuple[type[Exception], ...] = (OSError, *expected)
    try:
        yield
    except MemoryError as error:
        said: BaseException = limits.memory_error(error)
    except foreseen as error:
        said = error
    except RuntimeError as error:
        if NO_THREAD in str(error):
            said = RuntimeError(f"{error}: this user or job runs as many as it may (ulimit -u, pids.max)")
        elif (behind := storage_error(error)) is not None:
            said = behind
        else:
            raise
    else:
        return
    # Of what a library leaves undone, such as other requests of zarr's, asyncio would say a line each.
    logging.disable()
    sys.exit(f"{command}: {artifact}: {one_line(said)}")


def one_line(error: BaseException) -> str:
    """Return an error as the one line that a log needs."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def storage_error(error: BaseException) -> OSError | None:
    """Return what the file system said, where that is behind an error of h5py's; None where it is not.

    A file that could not be written cannot be closed either, which h5py reports as a RuntimeError: it hides
    the OSError of the write, or comes alone where the library wrote nothing before the close.
    """
    behind: BaseException | None = error
    while behind is not None:
        if isinstance(behind, OSError):
            return behind
        if said := re.search(r"errno = (\d+), error message = '([^']*)'", str(behind)):
            return OSError(int(said[1]), said[2])
        behind = behind.__context__
    return None
