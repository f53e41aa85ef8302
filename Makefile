# Every target sets up what it needs: a virtual environment in the tree, nothing outside it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: all demo serve test check e2e bench clean
all: check test

# One environment for users and developers; rebuilt when the dependencies change.
$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --group dev --editable .
	touch $@

demo: $(READY)
	$(BIN)/kubectl-numa demo

serve: $(READY)
	$(BIN)/kubectl-numa demo --serve

test: $(READY)
	$(BIN)/python -m pytest

check: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# A real kube-apiserver and etcd; needs Go once, then its cache. KUBEBUILDER_ASSETS is honoured.
e2e: $(READY)
	$(BIN)/python -m pytest tests/e2e --override-ini addopts=--import-mode=importlib --timeout 300 -v

bench: $(READY)
	$(BIN)/python -m bench.webhook

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
