"""Releases: environments with another release of HDF5, or another library, for the layouts that name one.

Each is made from its own lock.
"""


rule release_environment:
    """The Python in which a layout's files are written and read; a new one makes no measurement stale."""
    input:
        lock=str(PLAN.directory / "envs" / "releases" / "{environment}.lock"),
        script=ancient(str(PLAN.directory / "envs" / "create-release")),
    output:
        ".venv-releases/{environment}/made-from.lock",
    log:
        ".venv-releases/{environment}.log",
    wildcard_constraints:
        environment=r"[\w.-]+",
    localrule: True
    conda:
        "../envs/releases/python.yaml"
    shell:
        "sh {input.script:q} {input.lock:q} $(dirname {output:q}) > {log:q} 2>&1"
