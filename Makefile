# Everything sets itself up: Python 3.11 or newer is enough. Spark runs on a Java 17 or 21; without one, one is fetched.
# uv is taken from PATH, or installed (pinned, hashes checked) into .tools/. Another Python: make PYTHON=python3.13 …

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-fast test-long test-newest lint bench proven lock clean

UV     := $(or $(shell command -v uv 2>/dev/null),.tools/bin/uv)
PY     := .venv/bin/python
READY  := .venv/.ready

export UV_PYTHON_DOWNLOADS := never
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The suite starts hundreds of processes: without the compiled files each of them would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## the orders example: a run, a bad row stopped on its branch, the fix, the publish, the log
	@$(PY) examples/orders_demo.py

test: $(READY) ## the test suite, 11 minutes on 2 cores
	@$(PY) -m pytest -m "not long" --numprocesses 3 --dist loadfile

test-fast: $(READY) ## what needs no JVM and no service, without properties: the inner loop, 3 minutes
	@$(PY) -m pytest -m "not long and not spark and not service and not hypothesis" --numprocesses 3 --dist loadfile

test-long: $(READY) ## the long matrices, which `make test` leaves out: about an hour and a half
	@$(PY) -m pytest -m long --numprocesses 2

NEWEST_PY   := .venv-newest/bin/python
NEWEST      := psycopg[binary] asyncpg sqlalchemy adbc-driver-flightsql adbc-driver-manager

test-newest: $(READY) ## what Postgres clients see, with the newest version of each driver, which are fetched
	@$(UV) venv --quiet --clear --python $(PY) .venv-newest
	@$(UV) pip sync --quiet --python $(NEWEST_PY) --require-hashes --build-constraints requirements-build.txt requirements.lock
	@$(UV) pip install --quiet --python $(NEWEST_PY) --no-deps --no-build-isolation --editable .
	@$(UV) pip install --quiet --python $(NEWEST_PY) --upgrade $(NEWEST)
	@$(NEWEST_PY) -m pytest tests/serve/catalog/test_clients.py tests/serve/postgres/test_conformance.py tests/serve/flight
	@$(NEWEST_PY) -m pytest tests/serve/postgres/test_drivers.py tests/serve/catalog/test_pgadmin.py

lint: $(READY) ## style, format, types, import arrows
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports --no-logo

proven: $(READY) ## computes every case of tests/lake/proof in Spark, DuckDB and Trino, and writes what was the same, 30 minutes
	@$(PY) -m tests.lake.proof.write

bench: $(READY) ## the figures of docs/benchmarks.md, under 30 minutes; BENCH_SCALE, BENCH_BLOCKS
	@$(PY) -m bench

lock: $(UV) ## resolve the dependencies of pyproject.toml anew
	UV_CUSTOM_COMPILE_COMMAND="make lock" $(UV) pip compile --quiet --upgrade --universal --python-version 3.11 \
		--generate-hashes --all-extras pyproject.toml -o requirements.lock

clean: ## remove all that make made
	rm -rf .venv .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache demo
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): $(UV) requirements.lock requirements-build.txt requirements-java.txt pyproject.toml
	@$(PY) -c "" 2>/dev/null || { \
		python=$$(.ci/find-python $(PYTHON)) && $(UV) venv --quiet --clear --python "$$python" .venv; }
	@echo "Installing the locked dependencies (the first time takes a few minutes: pyspark is 400 MB)"
	@$(UV) pip sync --quiet --python $(PY) --require-hashes \
		--build-constraints requirements-build.txt requirements.lock
	@$(UV) pip install --quiet --python $(PY) --no-deps --no-build-isolation --editable .
	@$(PY) -m mere java show >/dev/null 2>&1 || { \
		echo "There is no Java 17 or 21 on this machine: installing one as a Python package into .venv"; \
		$(UV) pip install --quiet --python $(PY) --require-hashes --requirement requirements-java.txt; }
	@touch $@

.tools/bin/uv: requirements-uv.txt
	@.ci/make-tools $(PYTHON)
