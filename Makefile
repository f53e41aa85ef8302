# Every target first sets up a virtual environment in the tree, if necessary, with the versions and hashes of
# requirements/: docs/decisions/0026.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PROGRAMS := $(VENV)/.programs
TESTS := $(VENV)/.tests
READY := $(VENV)/.ready

.PHONY: all ready demo serve test test-latest test-oldest laws check lock sim soak clean
.PHONY: agreement agreement-check never oracle oracle-test fuzz-kubelet
.PHONY: e2e e2e-clean-root e2e-versions e2e-kubelets e2e-workloads e2e-ecosystem attack browser-test deploy-test release release-test
.PHONY: bench bench-e2e simulate kep-6007 map-screenshots
.PHONY: protos manifests dashboard reference docs docs-linkcheck
all: check test

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

# Only set up the environment; .venv/bin then contains kubectl-numa and the other programs.
ready: $(PROGRAMS)

demo: $(PROGRAMS)
	$(BIN)/kubectl-numa demo

serve: $(PROGRAMS)
	$(BIN)/kubectl-numa demo --serve

# Run the tests on all processors; laws on a sample of inputs, or on more of them with PROFILE=full
# (tests/worlds/thoroughness.py). Python caches compiled modules, whatever the environment sets: this halves the start.
# No test needs the machine's certificate authorities, and each TLS context would load them all.
# One process more than processors, for some tests wait.
PROFILE ?= sample
PYTEST = SSL_CERT_FILE=/dev/null SSL_CERT_DIR=/dev/null PYTHONDONTWRITEBYTECODE= \
	$(1)/bin/python -m pytest -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --dist worksteal --hypothesis-profile=$(PROFILE)
test: $(TESTS)
	$(call PYTEST,$(VENV))

# Run the tests with the newest versions of everything, and with the oldest that pyproject.toml allows: in a new
# environment without the lock each time.
test-latest: build/uv
	build/uv/bin/uv venv --quiet --clear --python $(PYTHON) build/latest
	build/uv/bin/uv pip install --quiet --python build/latest --upgrade --exclude-newer 9999-01-01 \
		--group test --editable ".[tracing]"
	$(call PYTEST,build/latest)

test-oldest: build/uv
	build/uv/bin/uv venv --quiet --clear --python $(PYTHON) build/oldest
	build/uv/bin/uv pip install --quiet --python build/oldest --resolution lowest-direct \
		--group test --editable ".[tracing]"
	$(call PYTEST,build/oldest)

# Resolve all dependencies, and write requirements/: make lock [AS_OF=2026-11-28]
# to ignore later releases of Python packages.
lock: build/uv
	$(PYTHON) -m tools.release.locks --uv $(CURDIR)/build/uv/bin/uv $(if $(AS_OF),--as-of $(AS_OF))

build/uv: requirements/installers.txt
	$(PYTHON) -m venv --clear $@
	$@/bin/python $(INSTALL) --requirement $<
	@touch $@

# Check laws on new random inputs: make laws [LAWS="-k ledger"]. Comparing webhook, scorer and kubectl numa on 12,000
# clusters takes about ten minutes: make laws LAWS="-k one_answer"
laws: $(READY)
	$(BIN)/python -m pytest tests/laws tests/kubelet/recordings/test_cache_on_recordings.py \
		--hypothesis-profile=thorough --timeout 3600 $(LAWS)

check: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# Generate the stubs of the kubelet's pod resources API from agent/podresources.proto.
protos: $(READY)
	$(BIN)/python -m grpc_tools.protoc --proto_path agent --python_out agent --pyi_out agent agent/podresources.proto

# Measure how often the rules agree with the kubelet, on all recordings at all levels: docs/measurements/agreement.md.
agreement: $(READY)
	$(BIN)/python -m tools.generate.agreement_page

agreement-check: $(READY)
	$(BIN)/python -m tools.generate.agreement_page --check

# Measure how many pods that fit in no state of a node are refused for ever: docs/measurements/never.md.
never: $(READY)
	$(BIN)/python -m tools.generate.never_page

# Record scenarios with the kubelet's own managers: make oracle VERSION=v1.37.2 [SEED=1]. The first use of each version
# needs Go; later ones use the cache.
VERSION ?= v1.34.4
oracle: $(READY)
	$(BIN)/python -m tools.generate.recordings.record --version $(VERSION) $(if $(SEED),--seed $(SEED))

# Record new scenarios, and compare them at once.
oracle-test: $(READY)
	$(BIN)/python -m pytest tests/kubelet/oracle -m oracle -v

# Test agents next to real kubelets on invented machines; needs root, mount namespaces, and Go the first time:
# make e2e-kubelets [E2E_KUBELETS="-k v1.37"]
BETWEEN := v1.36.3
E2E_KUBELETS ?= -k "not $(BETWEEN)"
e2e-kubelets: $(READY)
	$(BIN)/python -m pytest tests/kubelet/machines tests/kubelet/real --override-ini addopts=--import-mode=importlib \
		-m "kubelets or not kubelets" --timeout 900 -v $(E2E_KUBELETS)

# Test Deployments, Jobs, StatefulSets and JobSets on real kubelets, with the real scheduler and controllers: rejected
# pods, gates and healing; needs the same as e2e-kubelets.
e2e-workloads: $(READY)
	$(BIN)/python -m pytest tests/system/workloads --override-ini addopts=--import-mode=importlib \
		-m workloads --timeout 300 -v

# Test Kueue, Karpenter, KubeRay, Kubeflow Trainer and the descheduler beside numalign, with real kubelets, the real
# scheduler and controllers; needs the same as e2e-kubelets: make e2e-ecosystem [ECOSYSTEM="-k kueue"]
e2e-ecosystem: $(READY)
	$(BIN)/python -m pytest tests/system/ecosystem --override-ini addopts=--import-mode=importlib \
		-m ecosystem --timeout 300 -v $(ECOSYSTEM)

# Build the images, run them under runc, and install them with the chart on a node that runs containers; needs root, Go
# the first time, and buildah, containerd, mmdebstrap, runc, network plugins and umoci from the distribution.
e2e-image: $(READY)
	$(BIN)/python -m pytest tests/system/images --override-ini addopts=--import-mode=importlib \
		-m images --timeout 1800 -v

# Test README's two commands, the tutorial and the wheel in a clean Debian 12 and 13; needs root, mmdebstrap, Go and
# kubectl, and takes half an hour: make e2e-clean-root [ROOTS="-k bookworm"]
e2e-clean-root: $(READY)
	$(BIN)/python -m pytest tests/system/clean_root --override-ini addopts=--import-mode=importlib \
		-m clean_root -v $(ROOTS)

# Search for disagreements with the kubelet: make fuzz-kubelet MINUTES=5 [SEED=1]
MINUTES ?= 5
fuzz-kubelet: $(READY)
	$(BIN)/python -m tools.generate.recordings.search --minutes $(MINUTES) --version $(VERSION) $(if $(SEED),--seed $(SEED))

# Test the map's pages in a real Chromium, on PATH or named by CHROMIUM.
browser-test: $(READY)
	$(BIN)/python -m pytest tests/system/browser --override-ini addopts=--import-mode=importlib -m browser --timeout 120 -v

# Build the documentation site in build/site; warnings, such as broken links, are errors.
SPHINX = $(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --nitpicky --doctree-dir build/doctrees
docs: $(READY)
	$(SPHINX) --builder html docs build/site
	@echo "build/site/index.html"

# Check external links; needs a network.
docs-linkcheck: $(READY)
	$(SPHINX) --builder linkcheck docs build/linkcheck

# Update the screenshots and figures of docs/how-to/map.md, with the same Chromium.
map-screenshots: $(READY)
	$(BIN)/python -m tools.generate.map_pages

# Test the chart, its alerts and the steps of the image; needs Go the first time, for helm and promtool. HELM and
# PROMTOOL name existing ones.
deploy-test: $(READY)
	$(BIN)/python -m pytest tests/unit/deploy -m packaging

# Make the release of a commit in dist; needs the package registries, and Go the first time, for helm. RELEASE_URL is
# the URL of the published files: make release [RELEASE="--only chart"]
release: $(READY)
	$(BIN)/python -m tools.release $(RELEASE)

# Make and install a release in tests; needs the package registries.
release-test: $(READY)
	$(BIN)/python -m pytest tests/unit/tools/release -m release --timeout 900

# Generate deploy/manifests from deploy/chart.
manifests: $(READY)
	$(BIN)/python -m tools.generate.manifests

# Generate the pages of docs/reference that come from the sources: flags, commands, values.
reference: $(READY)
	$(BIN)/python -m tools.generate.reference.write

# Generate the dashboard of the chart from the table of its panels.
dashboard: $(READY)
	$(BIN)/python -m tools.generate.dashboard

# Test with a real kube-apiserver and etcd; needs Go the first time, or KUBEBUILDER_ASSETS.
e2e: $(READY)
	$(BIN)/python -m pytest tests/system/e2e --override-ini addopts=--import-mode=importlib --timeout 300 -v

# Test with the supported versions of Kubernetes before the newest: docs/reference/versions.md.
VERSIONS := v1.32.5 v1.34.4 $(BETWEEN)
ADMISSION := tests/system/e2e/test_admission.py tests/system/e2e/test_controllers.py tests/system/e2e/scheduling tests/system/e2e/installed
e2e-versions: $(READY)
	for version in $(VERSIONS); do $(BIN)/python -m pytest $(ADMISSION) --override-ini addopts=--import-mode=importlib \
		--timeout 300 --kubernetes $$version -v || exit; done
	$(BIN)/python -m tools.clusters.kubelets.build --version $(BETWEEN)
	$(MAKE) e2e-kubelets E2E_KUBELETS="-k $(BETWEEN)"

# Attack the running programs over the network and as a tenant, next to honest callers: make attack [ATTACK="-k records"]
attack: $(READY)
	$(BIN)/python -m pytest tests/system/attack --override-ini addopts=--import-mode=importlib --timeout 120 -v -s $(ATTACK)

# Send new pods to webhook and scorer without pause, and measure their memory:
# make soak MINUTES=60 [REVIEWS=1000000] [SOAK="--json FILE"]
soak: $(READY)
	$(BIN)/python -m tools.bench.soak --minutes $(MINUTES) $(if $(REVIEWS),--reviews $(REVIEWS)) $(SOAK)

# Run twenty nodes with the kubelets' real managers, on a control plane of their own, until Ctrl-C; needs Go the first
# time. With KUBELETS=real, the whole kubelets are real, and need root.
sim: $(TESTS)
	$(BIN)/python -m tools.clusters.sim $(if $(KUBELETS),--kubelets $(KUBELETS)) $(SIM)

# Compare how pods fare with the stock scheduler, the webhook and the scorer: docs/measurements/bench-e2e.md. Needs Go
# the first time.
bench-e2e: $(READY)
	$(BIN)/python -m tools.bench.e2e $(BENCH_E2E)

# Measure speed and memory, and write docs/measurements/speed.md and its charts: make bench [BENCH="--only columns"]
bench: $(READY)
	$(BIN)/python -m tools.bench --markdown docs/measurements/speed.md $(BENCH)

# Replay a trace under several strategies, and write docs/measurements/simulate.md: make simulate [TRACE=FOLDER]
simulate: $(READY)
	$(BIN)/python -m tools.bench.replays --markdown docs/measurements/simulate.md $(if $(TRACE),--trace $(TRACE)) $(SIMULATE)

# Replay a part of the trace with kubelets that choose zones by what is allocated, and write
# docs/measurements/kep-6007.md: make kep-6007 [KEP_6007="--seeds 10"]
kep-6007: $(READY)
	$(BIN)/python -m tools.bench.kep_6007 --markdown docs/measurements/kep-6007.md $(KEP_6007)

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
