# `make demo`, `make test` and `make reproduce` set everything up by themselves: python3 (>= 3.11) with venv, pip and make are all they need.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test lint format tables docs notebook release-check benchmarks results peers reproduce clean

demo: .venv/core
	$(BIN)/lipcert demo

test: .venv/dev lint
	$(BIN)/python -m pytest

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Parts of pages that are in git and made from the code: the table of operators, and the one of docs/trust.md.
tables: .venv/dev
	$(BIN)/python -m scripts.operators_table
	$(BIN)/python -m scripts.trusted_modules

notebook: .venv/dev
	$(BIN)/python -m scripts.notebook

# The site, with the pages that are generated and not in git: the API, the paper's tables and figures (scripts/site.py).
docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

release-check:
	PYTHON=$(PYTHON) scripts/check_release.sh

benchmarks: .venv/dev
	$(BIN)/python -m benchmarks

# `make results` measures the quick set (a quarter of an hour on two idle cores) and writes docs/results.md from the rows;
# SET=full takes hours, RESUME=--resume goes on with what the rows have for this commit.
SET ?= quick
RESUME ?=
results: .venv/dev
	$(BIN)/python -m benchmarks.results $(SET) $(RESUME)
	$(BIN)/python -m benchmarks.results page

peers: .venv/dev
	$(BIN)/python -m benchmarks.peers

reproduce: .venv/experiments
	$(BIN)/lipcert reproduce all --quick

.venv/pip:
	$(PYTHON) -m venv .venv
	@touch $@

.venv/core: .venv/pip pyproject.toml
	$(PIP) install --editable .
	@touch $@

.venv/experiments: .venv/pip pyproject.toml
	$(PIP) install --editable ".[experiments]"
	@touch $@ .venv/core

.venv/docs: .venv/pip pyproject.toml
	$(PIP) install --editable ".[docs]"
	@touch $@ .venv/core

.venv/dev: .venv/pip pyproject.toml
	$(PIP) install --editable ".[dev]"
	@touch $@ .venv/core

clean:
	rm -rf .venv dist build site .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
