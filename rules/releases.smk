"""Releases: environments with another release of HDF5, each from its own lock, for the layouts that name one."""


rule release_environment:
    """The Python in which a layout's files are written and read; a new one makes no measurement stale."""
    input:
        lock=str(PLAN.directory / "envs" / "releases" / "hdf5-{release}.lock"),
        script=ancient(str(PLAN.directory / "envs" / "create-release")),
    output:
        ".venv-releases/hdf5-{release}/made-from.lock",
    log:
        ".venv-releases/hdf5-{release}.log",
    wildcard_constraints:
        release=r"[\d.]+",
    localrule: True
    conda:
        "../envs/releases/python.yaml"
    shell:
        "sh {input.script:q} {input.lock:q} $(dirname {output:q}) > {log:q} 2>&1"
