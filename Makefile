# Every target works as the first command on a clean clone.
#
#   make demo     all families and both protocols; two kills, nothing lost; a pipeline on Spark
#   make run      the broker in the foreground, on 127.0.0.1:4777, data in ./quinque-data
#   make test     lint, then all tests; installs redis-server and Node.js when they are missing
#   make lint     ruff, mypy --strict, import-linter
#   make format   let ruff rewrite what `make lint` complains of, where it can
#   make bench    beside a real redis-server, in the same run
#   make compiled the same sources as extension modules (mypyc), in build/compiled; needs a C compiler
#   make dist     what is published, in dist/: wheels for all Pythons here, each one tried
#   make pythons  make test with each Python that is here
#   make docs     these pages as a site, in build/site/html; works offline, with a search
#   make image    the image of the Containerfile, built and tried without a registry, in build/image
#   make clean    back to a clean clone, except ./quinque-data
#
# To choose the Python: make PYTHON=python3.13 test. For some tests: make TESTS=tests/wire test.

SHELL = /bin/sh
# What does not need each other does not wait for each other.
MAKEFLAGS += --jobs=2
# Tests start Python a thousand times: what it has compiled is kept, whatever the caller prefers.
unexport PYTHONDONTWRITEBYTECODE
BIN = .venv/bin
TESTS =
# Many of the tests wait for what they started, so two cores are enough for four.
SPREAD = --numprocesses=4 --dist=worksteal
# pyspark comes as source only. Packing it takes minutes; stored and not compressed, half a minute.
STORED = --config-settings=--build-option=--compression=stored
NODE_CLIENTS = .tools/node/made

.PHONY: demo run test tested tested-on-spark tested-compiled lint format bench compiled dist docs \
    image pythons clean programs compiler

demo: .venv/demo
	$(BIN)/python -m demo.families
	$(BIN)/python -m demo.demo
	$(BIN)/python -m demo.pipeline

run: .venv/package
	$(BIN)/quinque serve

test: tested $(if $(TESTS),,tested-on-spark tested-compiled)

# worksteal: the tests of tests/faults take many times longer than the others.
tested: lint programs $(NODE_CLIENTS) tests/unit/__pycache__
	$(BIN)/python -m pytest $(SPREAD) $(or $(TESTS),--ignore=tests/spark)

# In a clean clone: pytest compiles all tests once, and not in each of its processes at a time. What
# is wrong with a test, the run itself says.
tests/unit/__pycache__: .venv/develop
	-$(BIN)/python -m pytest --collect-only -qq --ignore=tests/spark >/dev/null

# They share one Spark, and mostly wait for it.
tested-on-spark: .venv/develop programs
	$(BIN)/python -m pytest --quiet tests/spark

# What clients and users see, and the store that is compiled, once more on the compiled build.
# Without crashes at every step, and without counting memory: they would be most of the time. And
# without counting lines, of which compiled modules have none.
tested-compiled: build/tested/made tested-on-spark
	$(BIN)/python tools/dist --try build/tested.wheel/*.whl
	TESTED_STORES=embedded PYTHONPATH=build/tested $(BIN)/python -m pytest $(SPREAD) --quiet \
	    --ignore-glob='*_brokers.py' --ignore-glob='*_leaks.py' --ignore-glob='*_bounded.py' \
	    -k 'not crash' \
	    tests/conformance tests/engine tests/server tests/store

lint: .venv/develop
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin src
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/make_sync --check

format: .venv/develop
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: .venv/develop programs build/compiled/made
	$(BIN)/python -m bench

compiled: build/compiled/made

# ./quinque-data may hold somebody's messages.
clean:
	rm -rf .venv .tools build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis \
	    .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

# Empty files that say what .venv holds. They are made last, so an interrupted set-up starts again.

.venv/made:
	tools/setup venv
	touch $@

.venv/package: .venv/made pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

.venv/demo: .venv/made pyproject.toml
	$(BIN)/python tools/progress 'installing packages' \
	    $(BIN)/python -m pip install --progress-bar off $(STORED) pyspark --editable '.[demo,spark]'
	touch .venv/package $@

.venv/develop: .venv/made pyproject.toml
	$(BIN)/python -m pip install --quiet $(STORED) pyspark \
	    --editable '.[test,lint,bench,demo,spark]'
	touch .venv/package .venv/demo $@

.venv/docs: .venv/made pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch .venv/package $@

programs:
	tools/setup programs

compiler:
	tools/setup compiler

# Built from a copy: the extension modules must not lie beside the sources, where they would be
# imported instead of them, and setuptools packs what an older build has left. For tests, the same
# code goes to a C compiler in a hurry: a minute less, which is what they are short of.
define compiled_to_level
	rm -rf build/source $(@D) $(@D).wheel
	mkdir -p build/source/tools
	cp -R pyproject.toml setup.py MANIFEST.in README.md LICENSE CHANGELOG.md src build/source/
	cp tools/build_backend.py build/source/tools/
	QUINQUE_COMPILED=1 QUINQUE_COMPILED_LEVEL=$(1) \
	    $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir $(@D).wheel build/source
	$(BIN)/python -m pip install --quiet --no-deps --target $(@D) $(@D).wheel/*.whl
	touch $@
endef

COMPILED_FROM = pyproject.toml setup.py $(shell find src -name '*.py')

build/compiled/made: $(COMPILED_FROM) | .venv/made compiler
	$(call compiled_to_level,3)

build/tested/made: $(COMPILED_FROM) | .venv/made compiler
	$(call compiled_to_level,0)

# What is published: the source distribution, the pure wheel, and a compiled wheel for each Python
# from 3.11 on that is here; each is tried in an empty environment.
dist: .venv/made compiler
	$(BIN)/python tools/dist

# `make test` with each Python that is here, in a clone of the last commit.
pythons:
	@for python in python3.11 python3.12 python3.13 python3.14; do \
	    $$python -c '' 2>/dev/null || { echo "$$python: not on this machine"; continue; }; \
	    rm -rf build/pythons; git clone --quiet . build/pythons; \
	    echo "$$python: make test"; \
	    $(MAKE) --directory build/pythons PYTHON=$$python test || exit 1; \
	done

# Strict: a link, an anchor or a page of the navigation that does not exist fails. tests/facts looks
# for most of that in seconds.
docs: .venv/docs
	$(BIN)/python tools/docs_site.py

# The image of the Containerfile. WHEEL is one for /usr/bin/python3; without it, one is compiled.
WHEEL =
image: .venv/made compiler
	tools/setup image
	$(BIN)/python tools/image $(WHEEL)

$(NODE_CLIENTS): tests/clients/node/package.json | programs
	mkdir -p .tools/node
	cp tests/clients/node/package.json .tools/node/
	npm install --prefix .tools/node --no-package-lock --no-audit --no-fund --loglevel=error
	touch $@
