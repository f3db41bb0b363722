# make          the default study from nothing to its report
# make help     everything else

.DEFAULT_GOAL := quick
.NOTPARALLEL:
.PHONY: quick setup report advise rewrite site findings test tests lint unit lock clean help

PROFILE = profiles/local
UV ?= uv
# Processes that share the tests.
WORKERS ?= logical

# A variable that is given on make's command line, and not one that the environment happens to have (WSL sets NAME).
given = $(if $(filter command,$(origin $(1))),$($(1)))
# The same, of which make expands nothing.
literally = $(if $(filter command,$(origin $(1))),$(value $(1)))

# READ for READS, or SIZEBOUND for SIZE_BOUND, would change nothing, and nobody would know.
KNOWN := COPIES FILE FILTERS FORMATS LAYOUT LOCK_FLAGS NAME NO_COLOR ORDERS PACK PACKS PROFILE PYTHON READS SECONDS SITE SITES \
	SIZE_BOUND STATE STUDY UV WORKERS
UNKNOWN := $(strip $(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(filter-out $(KNOWN),$(name)))))
$(if $(UNKNOWN),$(error no variable is called $(firstword $(UNKNOWN)): there are $(KNOWN); those of the environment stand before make))

# A directory that moved, or a Python that is gone, leaves an environment whose scripts no longer start; another
# PYTHON on the command line asks for another environment.
WHICH = import os, sys; print(os.path.realpath(sys.executable))
MOVED := $(shell [ "$$(cat .venv/made-in 2>/dev/null)" = "$$(pwd -P)" ] && there=$$(.venv/bin/python -c '$(WHICH)' 2>/dev/null) \
	$(if $(call given,PYTHON),&& [ "$$there" = "$$("$(PYTHON)" -c '$(WHICH)' 2>/dev/null)" ]) || echo .venv/moved)

quick: .venv/made-in
	.venv/bin/snakemake --profile $(PROFILE)$(if $(NO_COLOR), --nocolor)
	@echo "The report: results/quick/report.html"

# What everything runs in, and nothing measured: on a login node, for instance.
setup: .venv/made-in

# A study that was measured elsewhere: its records, then figures and report, and no measurement.
report: .venv/made-in
	@[ -n "$(PACK)" ] || { echo "error: name the pack: make report PACK=packs/NAME.tar.xz" >&2; exit 1; }
	@study=$$(.venv/bin/python workflow/scripts/pack.py unpack "$(PACK)") && \
	.venv/bin/snakemake --profile $(PROFILE)$(if $(NO_COLOR), --nocolor) --config measure=false -- "results/$$study/report.html" && \
	echo "The report: results/$$study/report.html"

# How a file should be stored for the way it is read: a few layouts predicted, measured and put on one page.
# Of a file alone the command lists the arrays and names no study.
# What files call their arrays comes from elsewhere: it reaches the command through the environment, and no shell reads it.
advise: export HYPERSLAB_FILE = $(call literally,FILE)
advise: export HYPERSLAB_READS = $(call literally,READS)
unexport FILE READS
advise: .venv/made-in
	@[ -n "$$HYPERSLAB_FILE" ] || { echo 'error: name the array: make advise FILE=mine.h5::/counts READS="image: [all, all, 1]; spectrum: [1, 1, all]"' >&2; exit 1; }
	@study=$$(PYTHONPATH=workflow/scripts .venv/bin/python -m hyperslab.advise "$$HYPERSLAB_FILE" --reads "$$HYPERSLAB_READS" \
		--name "$(call given,NAME)" --filters "$(call given,FILTERS)" --orders "$(call given,ORDERS)" \
		--state "$(call given,STATE)" --copies "$(call given,COPIES)" --profile "$(PROFILE)" \
		--size-bound "$(call given,SIZE_BOUND)" --seconds "$(call given,SECONDS)" \
		$(if $(call given,SITE),--site $(SITE)) $(if $(call given,SITES),--sites "$(SITES)") \
		$(if $(call given,FORMATS),--formats $(FORMATS))) || exit 1; \
	[ -n "$$study" ] || exit 0; \
	.venv/bin/snakemake --profile $(PROFILE)$(if $(NO_COLOR), --nocolor) \
		$(if $(call given,SITES),--config sites="$(SITES)") -- "results/$$study/advice.html" && \
	echo "The advice: results/$$study/advice.html"

# A file of your own in a layout of a study that was measured: the recommended one, or that which LAYOUT names.
rewrite: .venv/made-in
	@[ -n "$(call given,STUDY)" ] || { echo "error: name the study: make rewrite STUDY=advice-mine LAYOUT=recommended" >&2; exit 1; }
	@target="results/$(STUDY)/layout/$(or $(call given,LAYOUT),recommended)"; \
	case "$$target" in *.h5|*.zarr) ;; *) target="$$target.h5" ;; esac; \
	.venv/bin/snakemake --profile $(PROFILE)$(if $(NO_COLOR), --nocolor) \
		$(if $(call given,SITE)$(call given,SITES),--config$(if $(call given,SITE), site="$(SITE)")$(if $(call given,SITES), sites="$(SITES)")) \
		-- "$$target" && echo "The file: $$target"

# A website of the reports of all packs, or of those that PACKS names.
site: .venv/made-in
	@page=$$(.venv/bin/python workflow/scripts/website.py $(PACKS)) && echo "The website: $$page"

# docs/index.md and its figures, from docs/findings.yaml and packs/.
findings: .venv/made-in
	.venv/bin/python workflow/scripts/findings.py

test: lint tests

# All tests; PYTEST_ADDOPTS says which, if not all.
tests: .venv/made-for-tests
	.venv/bin/python -m pytest -n $(WORKERS) --maxprocesses 4 --max-worker-restart 4 \
		--no-loadscope-reorder

lint: .venv/made-for-tests
	.venv/bin/ruff check envs tests workflow
	.venv/bin/ruff format --check envs tests workflow
	.venv/bin/mypy$(if $(NO_COLOR), --no-color-output)
	.venv/bin/snakefmt --check Snakefile rules
	.venv/bin/snakemake --lint

unit: .venv/made-for-tests
	.venv/bin/python -m pytest tests/unit

lock:
	@command -v "$(UV)" >/dev/null || { echo "error: make lock needs uv (pip install uv), or name it: make lock UV=/path/to/uv" >&2; exit 1; }
	$(LOCK) requirements.in -o requirements.lock
	$(LOCK) requirements-dev.in -o requirements-dev.lock
	for source in envs/*.in envs/releases/*.in envs/mpi/*.in; do $(LOCK) "$$source" -o "$${source%.in}.lock" || exit 1; done
	$(or $(wildcard .venv/bin/python),python3) envs/update_pins.py

# Hashes of every Python and machine, and no address: pip's own settings say where packages come from.
LOCK = "$(UV)" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
	--custom-compile-command "make lock" $(LOCK_FLAGS)

clean:
	rm -rf .venv .venv-releases .venv-mpi .venv-mpi.log .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find envs tests workflow -name __pycache__ -type d -prune -exec rm -rf {} +

help:
	@echo "make         set up .venv once, run the study 'quick' on this machine's disk and memory, name the report"
	@echo "make setup   set up .venv alone, as on a login node"
	@echo "make report PACK=packs/NAME.tar.xz   figures and report of a study measured elsewhere"
	@echo "make advise FILE=mine.h5::/counts READS=\"image: [all, all, 1]; 3 x spectrum: [1, 1, all]\""
	@echo "             how to store an array for the way it is read: predicted, measured, one page; FILE=mine.h5 alone"
	@echo "             lists its arrays; FILTERS=builtin for readers without hdf5plugin; SIZE_BOUND=1.15 of the raw"
	@echo "             array; SITE=\"disk memory\" of the file of sites, SITES= that file; SECONDS=60 for all of it;"
	@echo "             STATE=warm; COPIES=yes for two copies where they are better; FORMATS=\"hdf5 zarr\"; ORDERS=any"
	@echo "             of the axes; NAME= of the study; PROFILE=slurm for sites of a cluster"
	@echo "make rewrite STUDY=advice-mine   the file of a study's donor in the recommended layout, or in LAYOUT=NAME;"
	@echo "             SITE= whose recommendation it is, where sites differ"
	@echo "make site    a website in site/ of the reports of all packs, without measuring; PACKS=\"FILE …\" names some"
	@echo "make findings   docs/index.md and its figures from docs/findings.yaml and packs/"
	@echo "make test    linters, type checker and all tests"
	@echo "make lint    linters and type checker alone"
	@echo "make unit    unit tests alone: some twenty minutes of processor time"
	@echo "make lock    requirements.lock and requirements-dev.lock from their .in files, and the pins in envs/"
	@echo "             (needs uv; LOCK_FLAGS=--upgrade for newer versions)"
	@echo "make clean   remove .venv and caches; results, website and test files stay"
	@echo
	@echo "PYTHON=/path/to/python chooses the interpreter of .venv; NO_COLOR=1 does without colours."
	@echo "Everything else is Snakemake, for example:"
	@echo "    .venv/bin/snakemake --profile $(PROFILE) --dry-run"
	@echo "    .venv/bin/snakemake --profile $(PROFILE) results/openmsi-chunking/report.html"

.venv/made-in: requirements.lock envs/create-venv $(MOVED)
	@PYTHON="$(PYTHON)" sh envs/create-venv

.venv/made-for-tests: .venv/made-in requirements-dev.lock
	@echo "Adding the test tools to .venv"
	@.venv/bin/python envs/install_packages.py requirements-dev.lock
	@touch $@

.PHONY: .venv/moved
