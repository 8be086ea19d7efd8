# Two commands do everything on a fresh machine: `make demo` and `make test`.
# Both make their own environment in .venv first; PYTHON chooses the interpreter.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: demo bench wasm test test-long check info clean

$(STAMP): pyproject.toml constraints.txt CMakeLists.txt $(wildcard subquad/kernels/csrc/*)
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed"'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

demo: $(STAMP)                ## the main job on built-in data; ends with one report
	$(BIN)/subquad demo

bench: $(STAMP)               ## speed and memory on this machine, into results/kernels
	$(BIN)/subquad bench --out results/kernels

wasm: $(STAMP)                ## the engine of exported pages, as WebAssembly
	$(BIN)/python -m subquad.export.building

test: $(STAMP) check          ## everything that CI runs
	$(BIN)/python -m pytest -n auto --dist loadfile

test-long: $(STAMP)           ## also what takes minutes
	$(BIN)/python -m pytest -n auto --dist loadfile -m ''

check: $(STAMP)               ## style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
