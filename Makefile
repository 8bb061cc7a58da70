# Everything a developer runs. Needs make, a Python from 3.11 on with venv, and pip's usual access to packages.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= auto
ARGS ?=
WARP ?= out/warp

.DEFAULT_GOAL := help
.PHONY: help demo test soak bench conformance lint stub clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: $(VENV)/installed ## run a pyramid of boxes from USD to USD
	$(BIN)/engine run scenes/pyramid.usda --frames 120 --out out/pyramid.usdc

test: $(VENV)/installed-dev ## the whole test suite (WORKERS=n, ARGS="-k name")
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

soak: $(VENV)/installed-dev ## the long runs that the suite leaves out, and the suite with new random examples
	$(BIN)/python -m pytest -m soak --timeout 3600 $(ARGS)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --hypothesis-profile search $(ARGS)

bench: $(VENV)/installed ## the benchmark scenes (ARGS="pile1000 --threads 1")
	$(BIN)/engine bench $(ARGS)

conformance: $(VENV)/installed-dev ## Warp's own tests, as a measure of the kernel language (ARGS="--why test_array.py")
	@test -d $(WARP)/warp/tests || { $(BIN)/python -m pip download --quiet --no-deps -d $(WARP) warp-lang==1.19.0 \
		&& $(BIN)/python -m zipfile -e $(WARP)/warp_lang-*.whl $(WARP); }
	$(BIN)/python tests/conformance/run.py --tests $(WARP)/warp/tests $(ARGS)

lint: $(VENV)/installed-dev ## ruff and mypy
	@$(BIN)/ruff check .; ruff=$$?; $(BIN)/mypy && exit $$ruff

stub: $(VENV)/installed-dev ## engine/__init__.pyi, from which editors know the names of `engine`
	$(BIN)/python tools/make_stub.py

clean: ## remove what the targets above made
	rm -rf $(VENV) out .pytest_cache .mypy_cache .ruff_cache .hypothesis

# the stamps stand for "these packages are installed": made again when the dependencies may have changed
$(VENV)/installed: pyproject.toml | $(BIN)/python
	@echo "installing weft-engine into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/installed-dev: pyproject.toml | $(BIN)/python
	@echo "installing weft-engine and its development tools into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/installed

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "no Python from 3.11 to 3.14 found; name one: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "cannot make $(VENV); on Debian and Ubuntu: apt install python3-venv"; exit 1; }
