"""Hyperslab: how should this array be stored, on these machines, for the way it is read?

snakemake --profile profiles/local                                      the study named in config/config.yaml
snakemake --profile profiles/local results/openmsi-chunking/report.html   any study in config/studies/
"""

import gc
import sys
from pathlib import Path

from snakemake.utils import min_version

min_version("9.17")

# Hardly an object of a plan goes before its end: to look for some took a quarter of the time of a dry run.
gc.freeze()
gc.set_threshold(100_000)

SCRIPTS = Path(workflow.basedir) / "workflow" / "scripts"
sys.path.insert(0, str(SCRIPTS))

from hyperslab.planning.cell_jobs import ALL_CORES
from hyperslab.planning.one_line import in_one_line
from hyperslab.planning.plan import Plan
from hyperslab.planning.run_configuration import check_file

CONFIGURATION = Path(workflow.basedir) / "config" / "config.yaml"
# A mistake is one line, before anything is written.
in_one_line(check_file, CONFIGURATION)


configfile: CONFIGURATION


PLAN = in_one_line(Plan, config, workflow.basedir, sys.argv[1:])

# Rules call `python -m hyperslab.…`: the interpreter that runs Snakemake, or that of a deployed environment.
shell.prefix(PLAN.shell_prefix(workflow, SCRIPTS))

# Slots that keep timed jobs apart, results to be made again, what is left out and what dead jobs left behind.
in_one_line(PLAN.course.settle, workflow)


# With --sdm apptainer every rule runs in this image.
container: PLAN.request.config["container"]


wildcard_constraints:
    study=r"[^/]+",
    site=r"[^/]+",
    layout=r"[^/]+",
    case=r"[^/]+",
    round=r"[rc]\d+",
    claim=r"[^/]+",


rule all:
    default_target: True
    input:
        f"results/{PLAN.default}/report.html",


onstart:
    PLAN.course.follow(workflow)


onerror:
    PLAN.course.after_failure(workflow)


include: "rules/data.smk"
include: "rules/releases.smk"
include: "rules/measure.smk"
include: "rules/mpi.smk"
include: "rules/batches.smk"
include: "rules/summarise.smk"
include: "rules/claims.smk"
include: "rules/report.smk"
include: "rules/rewrite.smk"
include: "rules/advise.smk"
