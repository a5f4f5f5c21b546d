# Everything runs in .venv, which scripts/bootstrap.sh makes and keeps up to date.
#   make test PYTEST_ARGS="-k loader"          arguments for pytest
#   make bench BENCH_ARGS=--quick              arguments for benchmarks/run_all.py
#   make test LANE=legacy-py310 VENV=.venv-legacy    another lane of requirements/, in an environment of its own

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

VENV ?= .venv
export VENV LANE IMAGE VARIANT
# Where it is set, every import of TensorFlow takes about three times as long.
unexport PYTHONDONTWRITEBYTECODE

PYTHON := $(VENV)/bin/python
PYTEST_ARGS ?=
# Of the tests that are marked as thorough: none, all, or a part of them such as 3/12.
THOROUGH ?= none
BENCH_ARGS ?=
FUZZ_SECONDS ?= 600
STACK ?= tfx1.15 tfx1.16 tfx1.21-overrides tfx1.21

# The Chicago taxi trips that come inside the tfx wheel.
DEMO_DATA := $(VENV)/lib/python3.*/site-packages/tfx/examples/chicago_taxi_pipeline/data/simple
DEMO_ROOT ?= build/demo
DEMO_ARGS ?=
DEMO := run --data $(DEMO_DATA) --module-file module_files/taxi_keras.py --label big_tip --pipeline-root $(DEMO_ROOT)

# mypy and import-linter need a real package folder, which an editable install in strict mode makes out of links. They
# get it here, apart from .venv, because a strict install does not see files that are added after it.
LINKED := build/linked
# Three at a time on two cores: most tests wait now and then, for a process that imports TensorFlow or for a cluster. A
# file's tests share their fixtures; the files come in the order that tests/conftest.py gives them, not in that of xdist,
# which begins with those of most tests, the quick ones. A process that crashes is not replaced: xdist 3.8 would wait for
# ever for the new one's tests.
PARALLEL ?= -n 3 --dist loadfile --no-loadscope-reorder --max-worker-restart=0

.PHONY: help setup demo test test-all test-fast test-legacy test-airflow faults bench bench-gpu fuzz lint audit style types docs lock wheel release stacks image check-image clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' Makefile

setup: ## Make .venv from the lock, or bring it up to date
	@scripts/bootstrap.sh

demo: setup ## Run the whole pipeline on the Chicago taxi data
	$(VENV)/bin/generic-trainer $(DEMO) $(DEMO_ARGS)

test: setup ## Run the tests but for the thorough ones
	$(PYTHON) -m pytest $(PARALLEL) --thorough=$(THOROUGH) $(PYTEST_ARGS)

test-all: ## Run all tests: here, on the legacy lane, with Airflow, and on the stacks of `make stacks`
	@$(MAKE) test THOROUGH=all
	@$(MAKE) test-legacy THOROUGH=all
	@$(MAKE) test-airflow
	@$(MAKE) stacks

test-fast: setup ## Run the tests that take seconds
	$(PYTHON) -m pytest $(PARALLEL) --thorough=none -m "not slow" $(PYTEST_ARGS)

test-legacy: ## Run the quicker tests and the Estimators' on TFX 1.15.1 and TensorFlow 2.15.1, in .venv-legacy
	@$(MAKE) test LANE=legacy-py310 VENV=.venv-legacy PYTEST_ARGS='-m "not slow or legacy" $(PYTEST_ARGS)'

test-airflow: ## Run the example DAG's tests with Airflow, in .venv-airflow
	@$(MAKE) test LANE=airflow-py311 VENV=.venv-airflow PARALLEL= PYTEST_ARGS='tests/pipelines/test_airflow.py $(PYTEST_ARGS)'

faults: setup ## Put every fault into every phase of a training and of a pipeline, and print what came of it
	$(PYTHON) tests/faults/matrix.py $(FAULTS_ARGS)

bench: setup ## Run the benchmarks, one after the other, and write benchmarks/RESULTS.md
	$(PYTHON) benchmarks/run_all.py $(BENCH_ARGS)

fuzz: setup ## Fuzz each parser with atheris (FUZZ_SECONDS=600 each)
	@for parser in $$(ls fuzz | sed -n 's/\.py$$//p' | grep -vx '__init__\|run\|target'); do \
		$(PYTHON) -m fuzz.run $$parser -max_total_time=$(FUZZ_SECONDS); done

bench-gpu: setup ## Measure training on this machine's GPUs against a loop by hand
	$(PYTHON) benchmarks/gpu.py $(BENCH_ARGS)

lint: style types ## Check style, types and the layers of the package

audit: ## Look for what should not be here: in the code by bandit, in the locks by pip-audit
	@scripts/audit.sh

style: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: setup
	@rm -rf $(LINKED) build/__editable__.*
	@$$(scripts/find-uv.sh) pip install --quiet --no-deps --no-build-isolation --python $(PYTHON) \
		--target $(LINKED) --editable . --config-setting editable_mode=strict
	MYPYPATH=$$(echo build/__editable__.*) $(VENV)/bin/mypy -p generic_trainer | sed 's|^build/__editable__[^/]*/generic_trainer/||'
	PYTHONPATH=$$(echo build/__editable__.*) $(VENV)/bin/lint-imports

docs: setup ## Build the documentation site into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet

lock: ## Write the locks in requirements/ again (LOCK_ARGS=--upgrade for newer versions)
	@scripts/lock.sh $(LOCK_ARGS)

wheel: setup ## Build the sdist and the wheel into dist/
	@rm -rf dist build/lib build/bdist.*
	$(PYTHON) -m build --quiet --no-isolation
	@rm -rf *.egg-info
	@ls dist/*

release: test-all ## Run all tests, then build into dist/ all that is published, out of the last commit
	@scripts/release.sh

stacks: wheel ## Install the wheel by plain pip beside TFX 1.15, 1.16 and 1.21 and try it there (STACK=tfx1.15 for one)
	@for stack in $(STACK); do scripts/check-stack.sh $$stack; done

image: ## Build the container image (IMAGE=registry/name:tag, VARIANT=gpu)
	@scripts/build-image.sh $(IMAGE_ARGS)

check-image: ## Make and try the image's content without a container engine, as root (KEEP=1 for the next time)
	@scripts/check-image.sh

clean: ## Remove what was built, but not .venv
	rm -rf build dist site *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name '.?*' -prune -o -name __pycache__ -print0 | xargs -0 rm -rf
