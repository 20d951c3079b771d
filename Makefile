# Every target sets up what it needs in .venv; a fresh clone needs only Python 3.11+ and make.
PYTHON ?= python3
TORCH ?= torch==2.13.0
CASES ?= 800
VENV := .venv
DOCS ?= .venv-docs
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo docs test test-torch test-kills test-benchmarks test-browser test-moabb fuzz bench lint format clean

demo: $(VENV)/.demo
	$(BIN)/spdsl reproduce

docs: $(DOCS)/.docs
	$(DOCS)/bin/python -m sphinx -b html -W --keep-going -q -j 2 -d build/doctrees docs build/docs
	$(DOCS)/bin/python docs/check_links.py build/docs
	$(DOCS)/bin/python -m pytest tests/test_guide.py -k signals  # here is MNE, which a block of that page needs

test: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-torch: $(VENV)/.torch
	SPDSL_TEST_ARRAYS=numpy,torch $(BIN)/python -m pytest -n 2 --dist loadfile -m arrays

test-kills: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist loadfile -m kills

test-benchmarks: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 -m benchmarks tests/test_benchmarks.py

test-browser: $(VENV)/.browser
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null \
	  || { echo "test-browser needs Debian's packages chromium and chromium-driver:"; \
	       echo "  apt-get install chromium chromium-driver"; exit 1; }
	$(BIN)/python -m pytest -m browser tests/browser \
	  --reruns 2 --only-rerun "Not attached to an active page" --only-rerun "tab crashed"  # the driver's losses, no others
	@echo "Screenshots: build/screenshots"

test-moabb: $(VENV)/.moabb
	$(BIN)/python -m pytest -s -m moabb tests/moabb

fuzz: $(VENV)/.test
	SPDSL_FUZZ=$(CASES) $(BIN)/python -m pytest tests/fuzz -m fuzz

bench: $(VENV)/.torch
	$(BIN)/python benchmarks/bench.py

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "spdsl needs Python 3.11 or newer; run: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	@echo "Setting up $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.demo: $(VENV)/.made pyproject.toml
	@echo "Installing spdsl ..."
	@$(PIP) install -e '.[cli]'
	@touch $@

$(VENV)/.test: $(VENV)/.made pyproject.toml
	@echo "Installing spdsl and its test tools ..."
	@$(PIP) install -e '.[test]'
	@touch $@

$(VENV)/.torch: $(VENV)/.test
	@echo "Installing $(TORCH) ..."
	@$(PIP) install $(TORCH)
	@touch $@

$(VENV)/.browser: $(VENV)/.test
	@echo "Installing the driver of the browser ..."
	@$(PIP) install -e '.[browser]'
	@touch $@

$(VENV)/.moabb: $(VENV)/.made pyproject.toml
	@echo "Installing MOABB (several minutes) ..."
	@$(PIP) install -e '.[moabb]'
	@touch $@

# its own environment: aeon asks for an older NumPy than the tests run on
$(DOCS)/.docs: pyproject.toml
	@echo "Installing what builds the documentation (a few minutes) ..."
	@$(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/python -m pip --disable-pip-version-check --quiet install -e '.[docs]'
	@touch $@

$(VENV)/.lint: $(VENV)/.made pyproject.toml
	@echo "Installing ruff and mypy ..."
	@$(PIP) install -e '.[lint]'
	@touch $@

clean:
	rm -rf $(VENV) $(DOCS) spdsl-results build docs/auto_examples docs/api/generated docs/api/backreferences dist .pytest_cache .mypy_cache .ruff_cache
