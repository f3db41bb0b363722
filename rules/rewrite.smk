"""Rewrite: a user's own file with one dataset in another layout, compared with the original before it appears.

Where the layout is one of Zarr, the dataset alone becomes an array in a directory.
"""

from hyperslab.rewriting import choice


rule rewrite:
    """The donor's file; its dataset gets a layout of the study, or the one recommended for it."""
    input:
        file=lambda wildcards: choice.own_dataset(PLAN.study(wildcards.study))[0],
        recommendation=lambda wildcards: choice.recommendation_file(
            PLAN.study(wildcards.study), wildcards.layout
        ),
    output:
        "results/{study}/layout/{layout}.h5",
    log:
        "results/{study}/logs/layout/{layout}.log",
    conda:
        "../envs/workflow.yaml"
    resources:
        **PLAN.batches.aside,
        # A job of Slurm has minutes enough to read and write the file at 10 MB/s, if its platform gives them.
        runtime=lambda wildcards, input: PLAN.batches.minutes_aside(30 + int(input.size_mb / 300)),
    params:
        dataset=lambda wildcards: choice.own_dataset(PLAN.study(wildcards.study))[1],
        layouts=lambda wildcards: choice.text(PLAN.study(wildcards.study), wildcards.layout),
        site=lambda wildcards: PLAN.request.config["site"] if wildcards.layout == choice.RECOMMENDED else "",
        materialise="--materialise" if PLAN.request.config["materialise"] else "",
    shell:
        "python -m hyperslab.rewrite {input.file:q} {output:q} --dataset {params.dataset:q}"
        " --layouts {params.layouts:q} --recommendation {input.recommendation:q} --site {params.site:q}"
        " --log {log:q} {params.materialise}"


use rule rewrite as rewrite_as_zarr with:
    output:
        directory("results/{study}/layout/{layout}.zarr"),
    log:
        "results/{study}/logs/layout/{layout}.zarr.log",
    params:
        dataset=lambda wildcards: choice.own_dataset(PLAN.study(wildcards.study))[1],
        layouts=lambda wildcards: choice.text(PLAN.study(wildcards.study), wildcards.layout, choice.ZARR),
        site=lambda wildcards: PLAN.request.config["site"] if wildcards.layout == choice.RECOMMENDED else "",
        materialise="",
