# Everything runs in the project's own virtual environment. The two commands of the README, `make demo` and
# `make test`, build it the first time and reuse it afterwards. PYTHON=... says with which Python; else it is the newest
# one from 3.11 on.
PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
FUZZ_SECONDS ?= 300
# The editable install knows Python modules by their names, so it is renewed when one is added, moved or removed. The list
# of them is rewritten only then.
MODULES := build/modules.txt
$(shell mkdir -p build && find src -name '*.py' | sort > $(MODULES).new && \
	if cmp -s $(MODULES).new $(MODULES); then rm $(MODULES).new; else mv $(MODULES).new $(MODULES); fi)
SOURCES := pyproject.toml constraints.txt $(MODULES) $(shell find native -type f)

.DEFAULT_GOAL := help
.PHONY: help demo serve test test-rivals test-engines browser nginx faults siege fuzz fuzz-native sanitize wheel test-wheel web matrix check format bench docs clean

help:  ## what each target does
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(BIN)/python:
	@python=$$(sh tools/prerequisites.sh python $(PYTHON)) && echo "$$python -m venv $(VENV)" && "$$python" -m venv $(VENV)

# Of the extra neural, the demo needs torch and accelerate. pip says what it does, since the first time takes minutes.
$(VENV)/.demo: $(BIN)/python $(SOURCES)
	@sh tools/prerequisites.sh compiler
	@echo "first packages are downloaded, torch being the largest, then Trellis is compiled: a few minutes the first time"
	$(PIP) install -c constraints.txt -e . torch accelerate
	@touch $@

$(VENV)/.dev: $(BIN)/python $(SOURCES)
	@sh tools/prerequisites.sh compiler
	@echo "installing packages: a few minutes the first time"
	$(PIP) install --quiet -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.demo $(VENV)/.serve

demo: $(VENV)/.demo  ## families of taggers side by side, in the terminal
	@$(BIN)/trellis demo

$(VENV)/.serve: $(BIN)/python $(SOURCES)
	@sh tools/prerequisites.sh compiler
	@echo "installing packages: a few minutes the first time"
	$(PIP) install --quiet -c constraints.txt -e '.[serve]'
	@touch $@

serve: $(VENV)/.serve  ## the server with its page, on models that are trained in a few seconds; corrections stay in build/serve
	@mkdir -p build/serve
	@$(BIN)/trellis serve --demo --corrections build/serve/corrections.jsonl

test: $(VENV)/.dev  ## all tests, with the same random examples in each run
	PYTHONHASHSEED=0 $(BIN)/python -m pytest -n auto

browser:  ## Debian's chromium for the tests of the page, if there is no browser; as root
	@sh tools/prerequisites.sh browser

nginx:  ## Debian's nginx for the test of the server behind it, if there is none; as root
	@sh tools/prerequisites.sh nginx

$(VENV)/.engines: $(VENV)/.dev
	$(PIP) install --quiet -c constraints.txt -e '.[ray,spark,dask,datasets,spacy]'
	@touch $@

test-engines: $(VENV)/.engines  ## Ray, Spark, Dask, datasets and spaCy, which it installs; Spark needs Java 17
	PYTHONHASHSEED=0 timeout 900 $(BIN)/python -m pytest -W default tests/engines

# What cannot be installed is skipped, and the last line says so.
test-rivals: $(VENV)/.dev  ## real packages on the aliases of trellis.compat, which it installs into build/rivals
	timeout 360 $(BIN)/python -m tests.rivals

KILLS ?= 30
faults: $(VENV)/.dev  ## every write and allocation fails once, and KILLS trainings are killed: nothing may be lost
	$(BIN)/python -m tests.test_faults
	$(BIN)/python -m tests.faults --kills $(KILLS)

siege: $(VENV)/.dev  ## a server under fire: random bytes, killed workers, broken models
	$(BIN)/python -m tests.server.faults

fuzz: $(VENV)/.dev  ## tests with random examples, for FUZZ_SECONDS (300), from FUZZ_SEED (random)
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) $(if $(FUZZ_SEED),--seed $(FUZZ_SEED))

# Where there is no clang and none can be installed, it says so and passes.
fuzz-native: $(VENV)/.dev  ## native readers under a fuzzer that looks for new paths, for FUZZ_SECONDS (300) in all
	@command -v clang++ > /dev/null || apt-get install -y -q clang > /dev/null 2>&1 || true
	$(BIN)/python -m tests.fuzz_native --seconds $$(($(FUZZ_SECONDS) / 4))

sanitize: $(VENV)/.dev  ## tests of native code on builds that check memory, arithmetic, threads and names
	$(BIN)/python -m tests.sanitize

$(VENV)/.release: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install --quiet -c constraints.txt $(shell sed -n 's/^release = \[\(.*\)\]/\1/p' pyproject.toml | tr -d ,)
	@touch $@

# PYTHONS="python3.11 python3.13" says for which; else 3.11 and the newest, on the path or of pyenv.
wheel: $(VENV)/.release  ## the sdist and wheels for users, in dist
	$(BIN)/python -m tools.wheels $(PYTHONS)

test-wheel:  ## the wheels of dist in fresh environments without a compiler; EXTRA=neural with torch
	$(BIN)/python -m tests.wheel $(if $(EXTRA),--extra $(EXTRA)) $(PYTHONS)

# OLDEST=1: networks with torch 2.4 and transformers 4.40 instead, 3 GB to download.
matrix: $(BIN)/python  ## the base tests on PYTHONS, with old and new NumPy, on the wheels of dist
	$(BIN)/python -m tools.matrix $(if $(OLDEST),--oldest) $(PYTHONS)

web: $(VENV)/.dev  ## a BiLSTM tagger that runs in the browser, in build/web/site; needs npm
	npm install --silent --no-save --prefix build/web onnxruntime-web
	$(BIN)/python -m tools.web

check: $(VENV)/.dev  ## lint, formatting, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev  ## let ruff fix what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What is measured is what users install: the wheel of dist that suits this Python, in an environment that has all other
# packages from $(VENV). BUILD=clone measures the clone instead.
BENCH := build/bench/bin/python
ifeq ($(BUILD),clone)
BENCH := $(BIN)/python
endif
build/bench/bin/python: $(VENV)/.dev
	$(BIN)/python -m tools.bench

bench: $(BENCH)  ## benchmarks against the rivals, on the wheel or BUILD=clone; DATA=folder adds those that need corpora
	$(BENCH) benchmarks/chain.py
	$(BENCH) benchmarks/segments.py
	$(BENCH) benchmarks/metrics.py
	$(BENCH) benchmarks/corpus.py
	$(BENCH) benchmarks/lstm.py
	$(BENCH) benchmarks/scaling.py
	$(if $(DATA),$(BENCH) benchmarks/feature_crf.py $(DATA)/ud_english_ewt $(DATA)/ud_chinese_gsd)
	$(if $(DATA),$(BENCH) benchmarks/tagging.py $(DATA)/ud_english_ewt)
	$(if $(DATA),$(BENCH) benchmarks/startup.py $(DATA)/ud_chinese_gsd)
	$(if $(DATA),$(BENCH) benchmarks/annotate.py $(DATA))
	$(if $(DATA),$(BENCH) benchmarks/segmentation.py $(DATA)/ud_chinese_gsd)
	$(if $(DATA),$(BENCH) benchmarks/characters.py $(DATA)/ud_chinese_gsd)
	$(if $(DATA),$(BENCH) benchmarks/tokenizing.py $(DATA))
	$(if $(DATA),$(BENCH) benchmarks/lexicon.py $(DATA))
	$(BENCH) benchmarks/hmm.py $(if $(DATA),--data $(DATA))
	$(BENCH) benchmarks/transformer.py $(if $(DATA),$(DATA)/wnut17/emerging.dev.conll $(DATA)/wnut17/emerging.test.annotated)

$(VENV)/.docs: $(BIN)/python $(SOURCES)
	$(PIP) install --quiet -c constraints.txt -e '.[docs]'
	@touch $@

# The variable silences an advertisement; every warning from the build itself is an error.
docs: $(VENV)/.docs  ## the documentation as a site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --config-file mkdocs.zh.yml
	@echo "open build/site/index.html, or build/site/zh/index.html"

clean:  ## remove the environment and everything built
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
