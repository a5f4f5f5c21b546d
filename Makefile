# All targets run in .venv, which scripts/bootstrap.sh creates and updates.
#   make test PYTEST_ARGS="-k loader"          arguments for pytest
#   make bench BENCH_ARGS=--quick              arguments for benchmarks/run_all.py
#   make test LANE=legacy-py310 VENV=.venv-legacy    another lane of requirements/, in a separate environment

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

VENV ?= .venv
export VENV LANE IMAGE VARIANT
# If it is set, every import of TensorFlow takes about three times as long.
unexport PYTHONDONTWRITEBYTECODE

PYTHON := $(VENV)/bin/python
PYTEST_ARGS ?=
# The tests marked as thorough to run: none, all, or a part such as 3/12.
THOROUGH ?= none
BENCH_ARGS ?=
FUZZ_SECONDS ?= 600
STACK ?= tfx1.15 tfx1.16 tfx1.21-overrides tfx1.21

# The Chicago taxi data in the tfx wheel.
DEMO_DATA := $(VENV)/lib/python3.*/site-packages/tfx/examples/chicago_taxi_pipeline/data/simple
DEMO_ROOT ?= build/demo
DEMO_ARGS ?=
DEMO := run --data $(DEMO_DATA) --module-file module_files/taxi_keras.py --label big_tip --pipeline-root $(DEMO_ROOT)

# mypy and import-linter need a real package folder, which an editable install in strict mode creates from links. It is
# separate from .venv, because a strict install does not include files that are added later.
LINKED := build/linked
# Three workers on two cores: many tests wait for a process that imports TensorFlow or for a cluster. The tests of a file
# share their fixtures. Files run in the order set by tests/conftest.py instead of that of xdist, which starts with the
# files with most tests, the quick ones. Crashed workers are not replaced: xdist 3.8 would wait forever for their tests.
PARALLEL ?= -n 3 --dist loadfile --no-loadscope-reorder --max-worker-restart=0

.PHONY: help setup demo test test-all test-fast test-legacy test-airflow coverage faults bench bench-pipelines bench-gpu fuzz lint audit style types size docs lock wheel release stacks stacks-newest image check-image test-containers clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' Makefile

setup: ## Create or update .venv from the lock
	@scripts/bootstrap.sh

demo: setup ## Run the whole pipeline on the Chicago taxi data
	$(VENV)/bin/generic-trainer $(DEMO) $(DEMO_ARGS)

test: setup ## Run all tests except the thorough ones
	$(PYTHON) -m pytest $(PARALLEL) --thorough=$(THOROUGH) $(PYTEST_ARGS)

test-all: ## Run all tests: in .venv, on the legacy lane, with Airflow, and `make stacks`
	@$(MAKE) test THOROUGH=all
	@$(MAKE) test-legacy THOROUGH=all
	@$(MAKE) test-airflow
	@$(MAKE) stacks

test-fast: setup ## Run only the tests that take seconds
	$(PYTHON) -m pytest $(PARALLEL) --thorough=none -m "not slow" $(PYTEST_ARGS)

test-legacy: ## Run the quick tests and the Estimator tests on TFX 1.15.1 and TensorFlow 2.15.1, in .venv-legacy
	@$(MAKE) test LANE=legacy-py310 VENV=.venv-legacy PYTEST_ARGS='-m "not slow or legacy" $(PYTEST_ARGS)'

test-airflow: ## Run the tests of the example DAG with Airflow, in .venv-airflow
	@$(MAKE) test LANE=airflow-py311 VENV=.venv-airflow PARALLEL= PYTEST_ARGS='tests/pipelines/test_airflow.py $(PYTEST_ARGS)'

coverage: setup ## Run the tests with line and branch coverage, child processes included; the report is in build/coverage
	@rm -rf build/coverage && mkdir -p build/coverage
	$(VENV)/bin/coverage run -m pytest $(PARALLEL) --thorough=$(THOROUGH) $(PYTEST_ARGS)
	@$(VENV)/bin/coverage combine --quiet && $(VENV)/bin/coverage html --quiet --directory build/coverage/html
	$(VENV)/bin/coverage report | tee build/coverage/report.txt | tail -4

faults: setup ## Inject every fault into every phase of a training and a pipeline, and print the outcomes
	$(PYTHON) tests/faults/matrix.py $(FAULTS_ARGS)

bench: setup ## Run the benchmarks sequentially and write benchmarks/RESULTS.md
	$(PYTHON) benchmarks/run_all.py $(BENCH_ARGS)

fuzz: setup ## Fuzz each parser with atheris (FUZZ_SECONDS=600 each)
	@for parser in $$(ls fuzz | sed -n 's/\.py$$//p' | grep -vx '__init__\|run\|target'); do \
		$(PYTHON) -m fuzz.run $$parser -max_total_time=$(FUZZ_SECONDS); done

bench-pipelines: setup ## Benchmark whole pipelines against TFX's and write benchmarks/PIPELINES.md
	$(PYTHON) benchmarks/run_all.py pipelines.py --output benchmarks/PIPELINES.md $(BENCH_ARGS)

bench-gpu: setup ## Benchmark training on this machine's GPUs against a hand-written loop
	$(PYTHON) benchmarks/gpu.py $(BENCH_ARGS)

lint: style types size ## Check style, types, the layers of the package and the limits of its size

audit: ## Scan the code with bandit and the locks with pip-audit
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

size: setup
	$(PYTHON) scripts/size.py --loaded

docs: setup ## Build the documentation site into site/; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet

lock: ## Update the locks in requirements/ (LOCK_ARGS=--upgrade for newer versions)
	@scripts/lock.sh $(LOCK_ARGS)

wheel: setup ## Build the sdist and the wheel into dist/
	@rm -rf dist build/lib build/bdist.*
	$(PYTHON) -m build --quiet --no-isolation
	@rm -rf *.egg-info
	@ls dist/*

release: test-all ## Run all tests, then build the release of the last commit into dist/
	@scripts/release.sh

stacks: wheel ## Install the wheel with plain pip and TFX 1.15, 1.16 and 1.21, and test it (STACK=tfx1.15 for one)
	@for stack in $(STACK); do scripts/check-stack.sh $$stack; done

image: ## Build the container image (IMAGE=registry/name:tag, VARIANT=gpu or slim)
	@scripts/build-image.sh $(IMAGE_ARGS)

check-image: ## Build and test the image's content without a container engine, as root (KEEP=1 keeps it)
	@scripts/check-image.sh

stacks-newest: setup ## Resolve the newest versions of everything, and report what fails with them
	@scripts/stacks-newest.sh

test-containers: setup ## Build the image with podman and test it in containers, on Debian, as root
	@scripts/containers.sh test $(PYTEST_ARGS)

clean: ## Remove build outputs, but not .venv
	rm -rf build dist site *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name '.?*' -prune -o -name __pycache__ -print0 | xargs -0 rm -rf
