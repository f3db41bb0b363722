"""Data: what fills the test files. Synthetic values need nothing; a donor is read once and cut to what is used."""


rule donor:
    """The part of a donor that a study uses, in the study's type, as a memory-mappable array."""
    input:
        lambda wildcards: PLAN.study(wildcards.study).donor_files(),
    output:
        "results/{study}/donor.npy",
    log:
        "results/{study}/logs/donor.log",
    conda:
        "../envs/measure.yaml"
    params:
        dataset=lambda wildcards: PLAN.study(wildcards.study).dataset_json(),
    shell:
        "python -m hyperslab.donors" " --dataset {params.dataset:q} --output {output:q} > {log:q} 2>&1"
