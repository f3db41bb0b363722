"""What is checked of object stores before anything runs: what is kept there, and that it can be."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hyperslab.layouts import layout_of
from hyperslab.measuring import machine
from hyperslab.measuring.object_store import KEY, SECRET, TOKEN
from hyperslab.sites.configuration import Expansion
from hyperslab.studies.case_kinds import measured_at
from hyperslab.studies.study import LoadedStudy
from hyperslab.validation.errors import ConfigurationError

# Stores that a cell starts and that are no part of any environment -> their program.
PROGRAMS = {"versitygw": "versitygw"}
# Those whose objects lie in memory, an array as its parts and as a whole while it is put there.
IN_MEMORY, COPIES = ("moto",), 2
# A store that does not answer is asked for this long.
SECONDS = 10
# What the client of the check says -> what is wrong.
WORDS = {
    "ACCESS_DENIED": "it refuses the credentials of the environment, or they may not list the bucket",
    "INVALID_ACCESS_KEY_ID": "it does not know the AWS_ACCESS_KEY_ID of the environment",
    "INVALID_CLIENT_TOKEN_ID": "it does not know the AWS_ACCESS_KEY_ID of the environment",
    "SIGNATURE_DOES_NOT_MATCH": "the AWS_SECRET_ACCESS_KEY of the environment is not that of its key",
    "NO_SUCH_BUCKET": "it has no such bucket",
    "REQUEST_TIME_TOO_SKEWED": "this machine's clock is too far from its own",
    "SLOW_DOWN": "it is throttling; try again later",
    "NETWORK_CONNECTION": "nothing answers there",
}


def check_kept(study: LoadedStudy, names: Sequence[str], sites: Expansion) -> None:
    """Raise ConfigurationError where a layout is kept in object stores and a site is none, or vice versa."""
    for case_name, case in study.cases.items():
        for site in names:
            if site not in sites or not measured_at(case, site):
                continue
            store = sites[site]["store"] is not None
            for layout in case["layouts"]:
                described = layout_of(study.layouts[layout])
                if described.abilities.pages == store:
                    is_a = "an object store" if store else "a file system, and no object store"
                    message = (
                        f"{layout} ({described.title}) cannot lie at site {site!r}, which is {is_a}; name "
                        "sites that can hold it in `sites:` of the study, or of this case"
                    )
                    raise ConfigurationError(study.file, f"cases.{case_name}.layouts", message)


def check_memory(study: LoadedStudy, names: Sequence[str], sites: Expansion, file: Path) -> None:
    """Raise ConfigurationError where a store that keeps its objects in memory has no room on this machine."""
    for name in names:
        store = sites[name]["store"]
        if store is None or store["start"] not in IN_MEMORY or sites[name]["executor"] != "local":
            continue
        needed, free = COPIES * study.dataset.nbytes, machine.available_memory_bytes()
        if free < needed:
            where = f"file_systems.{sites[name]['file_system']}.store.start"
            said = (
                f"{store['start']} keeps objects in memory, up to {needed / 1e9:.1f} GB while those of study "
                f"{study.name} are put there; {free / 1e9:.1f} GB are free. Take versitygw, or fewer data"
            )
            raise ConfigurationError(file, where, said)


def check_stores(names: Sequence[str], sites: Expansion, file: Path) -> None:
    """Raise ConfigurationError where a store does not answer, refuses, lacks the bucket, or is not empty.

    One that a cell starts for itself is asked by that; here its program is looked for.
    """
    for name in names:
        store = sites[name]["store"]
        if store is None:
            continue
        where = f"file_systems.{sites[name]['file_system']}.store"
        if store["endpoint"] is None:
            if sites[name]["executor"] == "local" and (absent := _absent(store["start"])):
                raise ConfigurationError(file, f"{where}.start", absent)
            continue
        if missing := [variable for variable in (KEY, SECRET) if not os.environ.get(variable)]:
            message = f"the environment has no {' and no '.join(missing)}, which {store['endpoint']} needs"
            raise ConfigurationError(file, where, message)
        if wrong := _mistake(store):
            raise ConfigurationError(file, where, wrong)


def _absent(start: str) -> str | None:
    """Return why a store cannot be started here, None where it can."""
    if (program := PROGRAMS.get(start)) is None or shutil.which(program):
        return None
    return f"{program} is in no directory of PATH; install it, or take `start: moto`"


def _mistake(store: Mapping[str, Any]) -> str | None:
    """Return why a bucket cannot be written to, in one line without any credentials, None where it can."""
    from pyarrow import fs

    bucket, prefix, endpoint = store["bucket"], store["prefix"], store["endpoint"]
    scheme, _, host = endpoint.rstrip("/").partition("://")
    client = fs.S3FileSystem(
        access_key=os.environ[KEY],
        secret_key=os.environ[SECRET],
        session_token=os.environ.get(TOKEN),
        region=store["region"],
        scheme=scheme,
        endpoint_override=host,
        connect_timeout=SECONDS,
        request_timeout=SECONDS,
        force_virtual_addressing=False,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=2),
    )
    there = f"{endpoint}, bucket {bucket}"
    try:
        selector = fs.FileSelector(f"{bucket}/{prefix}".rstrip("/"), allow_not_found=True, recursive=True)
        found = [one.path for one in client.get_file_info(selector) if one.type == fs.FileType.File]
        if not found and client.get_file_info(bucket).type == fs.FileType.NotFound:
            return f"{there}: {WORDS['NO_SUCH_BUCKET']}"
    except OSError as error:
        said = str(error)
        words = next((words for code, words in WORDS.items() if code in said), " ".join(said.split()))
        return f"{there}: {words}"
    if found:
        message = f"{prefix} is not empty, {found[0].removeprefix(f'{bucket}/')} lies there"
        return f"{there}: {message}; the run removes what it puts there, so name another prefix, or empty it"
    return None
