# Each target does one thing in .venv/ and .nsys/; a second call finds the stamps and is quick.
# TORCH: which torch the environment gets, e.g. `make test TORCH=torch` on a machine with an NVIDIA GPU.

TORCH ?= $(if $(shell command -v nvidia-smi 2>/dev/null),torch,torch==2.13.0)
PYTHON ?= python3
VENV := .venv
NSYS := .nsys/bin/nsys

.DEFAULT_GOAL := help
.PHONY: help demo test tools check coverage docs format nsys clean

help:
	@echo 'make demo    capture math and flash attention on this machine and analyse what was captured'
	@echo 'make test    everything CI runs: environment, Nsight Systems where possible, scripts/check'
	@echo 'make check   scripts/check alone, in the environment that is there'
	@echo 'make coverage  the same with the slow tests, branch coverage and its floor'
	@echo 'make docs    build the documentation site into site/; a dead link is an error'
	@echo 'make format  let ruff format and fix the code'
	@echo 'make nsys    put Nsight Systems into .nsys/ (Debian and Ubuntu, amd64)'
	@echo 'make clean   remove the environment, .nsys/, demo/ and caches'

# What hatch_build.py compiles.
COMPILED := nsysprof/native/loops.c $(wildcard nsysprof/workload/program_start/attention_calls/*.[ch])

$(VENV)/.stamp-run: pyproject.toml scripts/setup hatch_build.py $(COMPILED)
	TORCH='$(TORCH)' PYTHON='$(PYTHON)' scripts/setup $(VENV)

$(VENV)/.stamp-dev: $(VENV)/.stamp-run
	scripts/setup $(VENV) --dev

demo: $(VENV)/.stamp-run
	$(VENV)/bin/nsysprof capture --backends math,flash --seq 1024,2048,4096 --out demo/capture --force
	$(VENV)/bin/nsysprof analyze demo/capture --out demo/analysis --force
	@echo
	@echo 'Captured: demo/capture    Analysed: demo/analysis (start with report.md or report.html)'

nsys:
	scripts/install_nsys.py .nsys

test:
	@$(MAKE) --no-print-directory --jobs=2 $(VENV)/.stamp-dev tools
	@scripts/check $(VENV)

# What tests want beside Python's packages. They need not be there.
tools:
	@test -x $(NSYS) || $(PYTHON) scripts/install_nsys.py .nsys || echo 'Nsight Systems was not installed: its tests will be skipped.'
	@scripts/install_chromium || echo 'Chromium was not installed: the tests of the page will be skipped.'

check:
	@scripts/check $(VENV)

coverage: $(VENV)/.stamp-dev
	@SLOW=1 COVERAGE=1 scripts/check $(VENV)

docs: $(VENV)/.stamp-dev
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet
	@echo 'Documentation: site/index.html'

format:
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

clean:
	rm -rf $(VENV) .nsys demo site .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
