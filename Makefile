# Everything a person does with this checkout. README gives the same commands without make.
PYTHON ?= $(firstword $(shell command -v python3.11 python3.12 python3 2>/dev/null))
TORCH  ?= torch==2.13.0
BIN    := .venv/bin

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' Makefile | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

# Torch first and by itself: whatever depends on it then keeps the build that was chosen.
.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Cutaway needs Python 3.11 or newer: make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --disable-pip-version-check --progress-bar on $(TORCH)
	$(BIN)/pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

setup: .venv/ready ## make .venv with pinned dependencies

demo: setup ## a model, an engine, real traffic, and what it decided (DEMO_EXIT=1: then leave)
	@$(BIN)/cutaway demo $(if $(DEMO_EXIT),--exit)

test: setup ## the test suite
	@$(BIN)/pytest

test-slow: setup ## the tests that take minutes
	@$(BIN)/pytest -m slow

lint: setup ## ruff, mypy, import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: setup ## tokens/s beside Hugging Face generate, and the cost of tracing
	@$(BIN)/cutaway bench offline
	@$(BIN)/cutaway bench tracing

clean: ## remove the environment and recorded runs
	rm -rf .venv traces/runs

.PHONY: help setup demo test test-slow lint bench clean
.DEFAULT_GOAL := help
