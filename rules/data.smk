"""Data: what fills the test files. Synthetic values need nothing; a donor is read once and cut to what is used."""


rule donor:
    """The part of a donor that a study uses, in the study's type, as a memory-mappable array."""
    input:
        # Copied again or touched, a donor holds what it held. To read one edited in place, remove what was made of it.
        lambda wildcards: ancient(PLAN.study(wildcards.study).donor_files()),
    output:
        # Another donor or shape is another file: where Snakemake makes one file anew, it overlooks whatever else
        # has changed for what depends on it (ancient).
        "results/{study}/donor.{donor}.npy",
    log:
        "results/{study}/logs/donor.{donor}.log",
    wildcard_constraints:
        donor=r"[0-9a-f]{8}",
    conda:
        "../envs/measure.yaml"
    resources:
        **PLAN.batches.aside,
        # A job of Slurm has minutes enough to read the file at 10 MB/s, if its platform gives them.
        runtime=lambda wildcards, input: PLAN.batches.minutes_aside(30 + int(input.size_mb / 600)),
    params:
        dataset=lambda wildcards: PLAN.study(wildcards.study).dataset_json(),
    shell:
        "python -m hyperslab.donors" " --dataset {params.dataset:q} --output {output:q} > {log:q} 2>&1"
