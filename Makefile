# `make` alone lists the targets. Needs make and Python 3.11 or newer.

PORT ?= 8000
DATABASE_URL ?=

# The first of these that really runs and is new enough.
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$python && break; done)

VENV := .venv
BIN := $(VENV)/bin
DEMO_INSTALLED := $(VENV)/.installed-demo
DEV_INSTALLED := $(VENV)/.installed-dev
# What the last installation has downloaded; the next start of the demo says it.
DOWNLOADED := $(VENV)/.downloaded

# mysqlclient compiles against these; without them the tests leave MariaDB out and say so.
MARIADB_CONFIG := $(shell command -v mariadb_config || command -v mysql_config)
MARIADB_INSTALLED := $(if $(MARIADB_CONFIG),$(VENV)/.installed-mariadb)

# A database of the reader's own is for the demo and the tests on its kind, not for these.
WITHOUT_URL := env -u DATABASE_URL

.PHONY: help demo demo-reset test lint clean
.DELETE_ON_ERROR:

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: export DEMO_STARTED := $(shell date +%s)
demo: export DEMO_FAULTS := 1
demo: export PORT := $(PORT)
demo: export DATABASE_URL := $(DATABASE_URL)
demo: $(DEMO_INSTALLED)  ## Install, migrate, seed and serve the demo (PORT, DATABASE_URL)
	@DEMO_DOWNLOADED="$$(cat $(DOWNLOADED) 2>/dev/null)"; export DEMO_DOWNLOADED; \
	rm -f $(DOWNLOADED); exec $(BIN)/python manage.py run_demo

demo-reset:  ## Empty var/, the demo's own database
	rm -rf var/*

# MariaDB and the browser are left out, in a line that says so, where they are not installed, and
# that is a failure where IDEMPOTENCY_TESTS_REQUIRE has the word mariadb, or browser.
test: lint $(MARIADB_INSTALLED)  ## Check style, types and migrations; test on all databases
	$(WITHOUT_URL) $(BIN)/python manage.py makemigrations --check --dry-run
	$(WITHOUT_URL) $(BIN)/python -m pytest
	$(BIN)/python -m tests.postgres -- $(BIN)/python -m pytest
	@$(BIN)/python -m tests.mariadb --if-installed -- $(BIN)/python -m pytest
	@$(WITHOUT_URL) $(BIN)/python -m tests.browser

lint: $(DEV_INSTALLED)  ## Check style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(WITHOUT_URL) $(BIN)/mypy
	$(BIN)/lint-imports

clean:  ## Remove .venv, var/ and everything that can be made again
	rm -rf $(VENV) var build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache \
		.import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "There is no Python 3.11 or newer; set PYTHON." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(DEMO_INSTALLED): requirements-demo.txt | $(BIN)/python
	@$(BIN)/python -m demo_project.install $(DOWNLOADED) requirements-demo.txt
	@touch $@

$(DEV_INSTALLED): requirements.txt requirements-demo.txt | $(BIN)/python
	@$(BIN)/python -m demo_project.install $(DOWNLOADED) requirements.txt
	@touch $@

# Without a compiler or Python's headers it cannot be built; the tests then say what is missing.
$(VENV)/.installed-mariadb: requirements-mariadb.txt | $(DEV_INSTALLED)
	@$(BIN)/pip install -q --disable-pip-version-check -r $< && touch $@ || true
