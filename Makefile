# Two commands do everything on a fresh machine: `make demo` and `make test`.
# Both make their own environment in .venv first; PYTHON chooses the interpreter.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: demo bench wasm system test test-long check clean

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

# What tests use beside Python: installed where that is allowed, and else the tests skip and say so.
system:
	@missing=""; \
	command -v c++ >/dev/null || missing="$$missing g++"; \
	command -v node >/dev/null || missing="$$missing nodejs"; \
	for name in chromium chromium-browser google-chrome chrome; do \
	  command -v $$name >/dev/null && browser=1; done; \
	[ -n "$$browser" ] || missing="$$missing chromium"; \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing$$missing"; \
	  { timeout 300 apt-get update -qq && DEBIAN_FRONTEND=noninteractive timeout 600 \
	    apt-get install -qq --yes --no-install-recommends $$missing; } >/dev/null </dev/null \
	    || echo "not installed:$$missing; the tests that need them skip"; \
	elif [ -n "$$missing" ]; then echo "missing:$$missing; the tests that need them skip"; fi

test: system $(STAMP) check   ## everything that CI runs
	$(BIN)/python -m pytest -n auto --dist loadfile

test-long: system $(STAMP)    ## also what takes minutes
	$(BIN)/python -m pytest -n auto --dist loadfile -m ''

check: $(STAMP)               ## style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
