# Every target first sets up a virtual environment in the tree, if necessary, with the versions and hashes of
# requirements/: docs/decisions/0026.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PROGRAMS := $(VENV)/.programs
TESTS := $(VENV)/.tests
READY := $(VENV)/.ready

.PHONY: help ready demo serve check test laws attack e2e e2e-kubelets e2e-workloads e2e-ecosystem e2e-image \
	browser-test deploy-test release release-test docs lock sim bench

help:
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

INSTALL := -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps
SUPPORTED := import sys; v = sys.version_info; \
	sys.exit(v < (3, 11) and f"numalign needs Python 3.11 or newer, and $(PYTHON) is {v[0]}.{v[1]}: make PYTHON=python3.11")

# What users run: no linters, browser or documentation generator.
$(PROGRAMS): pyproject.toml requirements/programs.txt requirements/build.txt
	@$(PYTHON) -c '$(SUPPORTED)'
	@$(PYTHON) -m tools.release.locks --check
	@echo "Installing numalign into $(VENV), which takes about a minute the first time"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(INSTALL) --requirement requirements/programs.txt --requirement requirements/build.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(TESTS): $(PROGRAMS) requirements/test.txt
	@echo "Installing what tests need"
	@$(BIN)/python $(INSTALL) --requirement requirements/test.txt
	@touch $@

$(READY): pyproject.toml $(PROGRAMS) requirements/dev.txt
	@echo "Installing what developers need"
	@$(BIN)/python $(INSTALL) --requirement requirements/dev.txt
	@touch $@

ready: $(PROGRAMS) ## set up .venv with kubectl-numa and the other programs

demo: $(PROGRAMS) ## run a webhook and send it pods
	$(BIN)/kubectl-numa demo

serve: $(PROGRAMS) ## show the map of the demo until Ctrl-C
	$(BIN)/kubectl-numa demo --serve

check: $(READY) ## lint, types, import layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# Python caches compiled modules, whatever the environment sets: this halves the start. No test needs the machine's
# certificate authorities, and each TLS context would load them all. One process more than processors, for some tests wait.
PROFILE ?= sample
test: $(TESTS) ## tests that need only Python; PROFILE=full for more inputs, tools, documents
	SSL_CERT_FILE=/dev/null SSL_CERT_DIR=/dev/null PYTHONDONTWRITEBYTECODE= \
		$(BIN)/python -m pytest -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --dist worksteal --hypothesis-profile=$(PROFILE)

# Comparing webhook, scorer and kubectl numa on 12,000 clusters takes about ten minutes: make laws LAWS="-k one_answer"
laws: $(READY) ## laws on thousands of new random inputs; LAWS="-k ledger"
	$(BIN)/python -m pytest tests/laws tests/kubelet/recordings/test_cache_on_recordings.py \
		--hypothesis-profile=thorough --timeout 3600 $(LAWS)

SYSTEM = $(BIN)/python -m pytest --override-ini addopts=--import-mode=importlib -v

attack: $(READY) ## attacks on the running programs; ATTACK="-k records"
	$(SYSTEM) tests/system/attack --timeout 120 -s $(ATTACK)

e2e: $(READY) ## real API server and scheduler; needs Go or KUBEBUILDER_ASSETS
	$(SYSTEM) tests/system/e2e --timeout 300 $(E2E)

E2E_KUBELETS ?= -k "not v1.36.3"
e2e-kubelets: $(READY) ## real kubelets with agents; needs Go and root; E2E_KUBELETS="-k v1.36"
	$(SYSTEM) tests/kubelet/machines tests/kubelet/real -m "kubelets or not kubelets" --timeout 900 $(E2E_KUBELETS)

e2e-workloads: $(READY) ## Deployments, Jobs and JobSets on real kubelets; needs Go and root
	$(SYSTEM) tests/system/workloads -m workloads --timeout 300

e2e-ecosystem: $(READY) ## Kueue, Karpenter, KubeRay, Trainer, descheduler; needs Go and root; ECOSYSTEM="-k kueue"
	$(SYSTEM) tests/system/ecosystem -m ecosystem --timeout 300 $(ECOSYSTEM)

e2e-image: $(READY) ## build the images, run them and the chart; needs Go, root, containerd, buildah
	$(SYSTEM) tests/system/images -m images --timeout 1800

browser-test: $(READY) ## the map in Chromium, on PATH or named by CHROMIUM
	$(SYSTEM) tests/system/browser -m browser --timeout 120

deploy-test: $(READY) ## the chart with helm, alerts with promtool; needs Go, or HELM and PROMTOOL
	$(BIN)/python -m pytest tests/unit/deploy -m packaging

release: $(READY) ## make the files of a release in dist; RELEASE_URL=URL, RELEASE="--only chart"
	$(BIN)/python -m tools.release $(RELEASE)

release-test: $(READY) ## make, install and run the files of a release; needs package registries
	$(BIN)/python -m pytest tests/unit/tools/release -m release --timeout 900

SPHINX = $(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --nitpicky --doctree-dir build/doctrees
docs: $(READY) ## the website in build/site; broken links are errors
	$(SPHINX) --builder html docs build/site
	@echo "build/site/index.html"

lock: build/uv ## resolve all dependencies again; AS_OF=2026-11-28 ignores later releases
	$(PYTHON) -m tools.release.locks --uv $(CURDIR)/build/uv/bin/uv $(if $(AS_OF),--as-of $(AS_OF))

build/uv: requirements/installers.txt
	$(PYTHON) -m venv --clear $@
	$@/bin/python $(INSTALL) --requirement $<
	@touch $@

sim: $(TESTS) ## a cluster of twenty simulated nodes until Ctrl-C; KUBELETS=v1.37.2 needs root; needs Go
	$(BIN)/python -m tools.clusters.sim $(if $(KUBELETS),--kubelets $(KUBELETS)) $(SIM)

bench: $(READY) ## measure speed and memory, and write docs/measurements/speed.md; BENCH="--only columns"
	$(BIN)/python -m tools.bench --markdown docs/measurements/speed.md $(BENCH)
