# Every target builds what it needs. A machine with Python 3.11+, git and make is enough.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PY     := $(BIN)/python
RUNS   := $(VENV)/.runs
READY  := $(VENV)/.ready
LOCK   := requirements.lock
DEV    := requirements-dev.lock
UV     := uv==0.13.7
PIP    := $(PY) -m pip --disable-pip-version-check --quiet

# The long targets have tests that rightly take minutes; the limit per test is there for those that hang.
LONG := -o faulthandler_timeout=3600

# What runs as a demonstration or a measurement gets a home of its own, never the user's.
RUN_HOME := $(CURDIR)/.run
OWN_HOME := env -u AGENTM_INSTALL_PREFIX -u MEMORY_VAULT_PATH -u XDG_CACHE_HOME -u XDG_CONFIG_HOME HOME="$(RUN_HOME)"

.PHONY: help run test check static crash fuzz bench lock clean test-deps
.DEFAULT_GOAL := help

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: $(RUNS) ## see agentm work: the doctor, a first write and read, a first memory recalled (home: .run)
	@mkdir -p "$(RUN_HOME)"
	@echo '$$ agentm doctor' && $(OWN_HOME) $(PY) -m agentm doctor
	@echo '$$ python examples/first_steps.py' && $(OWN_HOME) $(PY) examples/first_steps.py
	@echo '$$ agentm remember "The owner likes green tea." --to preferences/tea' && \
	    $(OWN_HOME) $(PY) -m agentm remember "The owner likes green tea." --to preferences/tea
	@echo '$$ agentm ls' && $(OWN_HOME) $(PY) -m agentm ls
	@echo '$$ agentm recall "what does the owner drink?"' && \
	    $(OWN_HOME) $(PY) -m agentm recall "what does the owner drink?"

test: test-deps static ## everything CI runs: lint, types, imports, all tests
	$(PY) -m pytest -n 2 --dist loadfile -m "not lab"

check: static ## what to type all day: lint, types, imports, fast tests
	$(PY) -m pytest -q -n 2 --dist loadfile -m "not slow and not lab"

static: $(READY)
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(BIN)/lint-imports --no-cache

crash: $(READY) ## the long crash and race tests, at full counts
	@tools/test-deps.sh crash
	$(PY) -m pytest $(LONG) -s -m lab

fuzz: $(READY) ## the property tests, many more examples each; a million attempts to leave a scope
	$(PY) -m pytest $(LONG) -m "hypothesis and not lab" --hypothesis-profile=fuzz
	$(PY) -m pytest $(LONG) -n 2 -m lab tests/files

bench: $(READY) ## the benchmarks, one table each
	@for script in bench/*.py; do echo "== $$script"; $(OWN_HOME) $(PY) "$$script" || exit 1; done

lock: $(READY) ## bring the locked dependencies up to date
	$(PIP) install "$(UV)"
	for group in build:$(LOCK) dev:$(DEV); do \
	    $(PY) -m uv pip compile pyproject.toml --group $${group%%:*} --universal --python-version 3.11 --generate-hashes \
	        --upgrade --no-config --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	        --quiet --output-file $${group#*:} || exit 1; \
	done

clean: ## remove everything these commands made
	rm -rf $(VENV) .run .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# CI must not skip the tests that need strace; a laptop may.
test-deps:
	@if [ "$$CI" = true ]; then tools/test-deps.sh; fi

# Working on agentm needs much that using it does not.
$(READY): $(RUNS) $(DEV)
	$(PIP) install --require-hashes -r $(DEV)
	@touch $@

$(RUNS): pyproject.toml $(LOCK)
	@command -v "$(PYTHON)" >/dev/null || \
	    { echo "make: there is no '$(PYTHON)'; install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3." >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "make: '$(PYTHON)' is older than 3.11; name a newer one: make PYTHON=python3.12." >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || \
	    { echo "make: '$(PYTHON)' cannot make environments (no ensurepip); install it: sudo apt-get install python3-venv." >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)
	$(PIP) install --require-hashes -r $(LOCK)
	$(PIP) install --no-build-isolation --no-deps --editable .
	@touch $@
