# Every target sets up what it needs: a virtual environment in the tree, nothing outside it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: all ready demo serve test laws check sim soak clean
.PHONY: agreement agreement-check oracle oracle-test fuzz-kubelet
.PHONY: e2e e2e-clean-root e2e-versions e2e-kubelets e2e-workloads attack browser-test deploy-test release release-check release-test
.PHONY: bench bench-e2e simulate map-screenshots
.PHONY: protos manifests dashboard reference docs docs-linkcheck
all: check test

# One environment for users and developers; rebuilt when the dependencies change.
$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --group dev --editable ".[tracing]"
	touch $@

# Only the environment: then .venv/bin holds kubectl-numa and the other programs.
ready: $(READY)

demo: $(READY)
	$(BIN)/kubectl-numa demo

serve: $(READY)
	$(BIN)/kubectl-numa demo --serve

# On all processors; laws on a sample of inputs, or on more of them with PROFILE=full (tests/thoroughness.py).
# What is compiled for the tests is kept, whatever the environment says: it is half of their start. No test of these
# goes by the machine's authorities, and each TLS context would read them all.
PROFILE ?= sample
test: export PYTHONDONTWRITEBYTECODE =
test: $(READY)
	SSL_CERT_FILE=/dev/null SSL_CERT_DIR=/dev/null \
		$(BIN)/python -m pytest -n auto --dist worksteal --hypothesis-profile=$(PROFILE)

# Laws on inputs that nobody has seen: make laws [LAWS="-k ledger"]; 12,000 clusters that webhook, scorer and kubectl numa
# are asked of take some ten minutes: make laws LAWS="-k one_answer"
laws: $(READY)
	$(BIN)/python -m pytest tests/laws tests/conformance/test_cache_on_recordings.py \
		--hypothesis-profile=thorough --timeout 3600 $(LAWS)

check: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# Stubs for what the kubelet tells over its socket, from agent/podresources.proto.
protos: $(READY)
	$(BIN)/python -m grpc_tools.protoc --proto_path agent --python_out agent --pyi_out agent agent/podresources.proto

# How often the rules say what the kubelet did: docs/measurements/agreement.md, of all recordings at all levels.
agreement: $(READY)
	$(BIN)/python -m tests.conformance.agreement_page

agreement-check: $(READY)
	$(BIN)/python -m tests.conformance.agreement_page --check

# The kubelet's own managers; each version needs Go once, then its cache.
# Record scenarios: make oracle VERSION=v1.36.3 [SEED=1]
VERSION ?= v1.34.4
oracle: $(READY)
	$(BIN)/python -m tests.oracle.record --version $(VERSION) $(if $(SEED),--seed $(SEED))

# Fresh scenarios, recorded and compared on the spot.
oracle-test: $(READY)
	$(BIN)/python -m pytest tests/oracle -m oracle -v

# Real kubelets on machines that do not exist, with agents beside them; needs root, mount namespaces, and Go once,
# then its cache.
e2e-kubelets: $(READY)
	$(BIN)/python -m pytest tests/kubelets tests/e2e_kubelets --override-ini addopts=--import-mode=importlib \
		-m "kubelets or not kubelets" --timeout 900 -v

# Deployments, Jobs, StatefulSets and JobSets on real kubelets, with the real scheduler and controllers, through refusal,
# gates and healing; needs what e2e-kubelets needs.
e2e-workloads: $(READY)
	$(BIN)/python -m pytest tests/e2e_workloads --override-ini addopts=--import-mode=importlib \
		-m workloads --timeout 300 -v

# The images, built, run under runc, and installed with the chart into a cluster of one node that runs containers; needs root,
# Go once, and containerd, runc, network plugins, skopeo and umoci as the distribution has them.
e2e-image: $(READY)
	$(BIN)/python -m pytest tests/e2e_image --override-ini addopts=--import-mode=importlib \
		-m images --timeout 900 -v

# README's two commands, the tutorial and the wheel in a clean Debian 12 and 13; needs root, mmdebstrap, Go and
# kubectl, and half an hour: make e2e-clean-root [ROOTS="-k bookworm"]
e2e-clean-root: $(READY)
	$(BIN)/python -m pytest tests/e2e_clean_root --override-ini addopts=--import-mode=importlib \
		-m clean_root -v $(ROOTS)

# Search for a disagreement: make fuzz-kubelet MINUTES=5 [SEED=1]
MINUTES ?= 5
fuzz-kubelet: $(READY)
	$(BIN)/python -m tests.oracle.search --minutes $(MINUTES) --version $(VERSION) $(if $(SEED),--seed $(SEED))

# The map's pages in a real Chromium, on PATH or named by CHROMIUM.
browser-test: $(READY)
	$(BIN)/python -m pytest tests/browser -m browser --timeout 120 -v

# The site of the documents, in build/site; a warning, such as a link that leads nowhere, is an error.
SPHINX = $(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --nitpicky --doctree-dir build/doctrees
docs: $(READY)
	$(SPHINX) --builder html docs build/site
	@echo "build/site/index.html"

# Whether addresses outside the repository answer; needs a network.
docs-linkcheck: $(READY)
	$(SPHINX) --builder linkcheck docs build/linkcheck

# Pictures and figures of docs/how-to/map.md anew, by the same Chromium.
map-screenshots: $(READY)
	$(BIN)/python -m bench.map_pages

# The chart, its alerts and the image's steps; needs Go once, for helm and promtool, then its cache. HELM and PROMTOOL
# name others.
deploy-test: $(READY)
	$(BIN)/python -m pytest tests/deploy -m "packaging or not packaging"

# All that is released of a commit, into dist; asks the package registries, and needs Go once, for helm. RELEASE_URL
# is where it will be found, RELEASE_KEY a key of GnuPG: make release [RELEASE="--only chart"]
release: $(READY)
	$(BIN)/python -m release $(RELEASE)

# Two releases of a commit, made in places that differ, byte by byte.
release-check: $(READY)
	$(BIN)/python -m release.twice $(RELEASE)

# What is released, made and installed; asks the package registries.
release-test: $(READY)
	$(BIN)/python -m pytest tests/release -m "release or not release" --timeout 900

# deploy/manifests anew, from deploy/chart.
manifests: $(READY)
	$(BIN)/python -m tests.deploy.render

# The pages of docs/reference that come from the sources anew: flags, commands, values.
reference: $(READY)
	$(BIN)/python -m tests.reference.write

# The dashboard of the chart anew, from the table of its panels.
dashboard: $(READY)
	$(BIN)/python -m tests.deploy.dashboard

# A real kube-apiserver and etcd; needs Go once, then its cache. KUBEBUILDER_ASSETS is honoured.
e2e: $(READY)
	$(BIN)/python -m pytest tests/e2e --override-ini addopts=--import-mode=importlib --timeout 300 -v

# The same at the oldest and at the newest version of Kubernetes that are supported: docs/reference/versions.md.
VERSIONS := v1.32.5 v1.36.3
ADMISSION := tests/e2e/test_admission.py tests/e2e/test_controllers.py tests/e2e/scheduling tests/e2e/installed
e2e-versions: $(READY)
	for version in $(VERSIONS); do $(BIN)/python -m pytest $(ADMISSION) --override-ini addopts=--import-mode=importlib \
		--timeout 300 --kubernetes $$version -v || exit; done

# What strangers and tenants can do to the running programs, beside honest callers: make attack [ATTACK="-k records"]
attack: $(READY)
	$(BIN)/python -m pytest tests/attack --override-ini addopts=--import-mode=importlib --timeout 120 -v -s $(ATTACK)

# Ever new pods against webhook and scorer, and what they hold of them:
# make soak MINUTES=60 [REVIEWS=1000000] [SOAK="--json FILE"]
soak: $(READY)
	$(BIN)/python -m bench.soak --minutes $(MINUTES) $(if $(REVIEWS),--reviews $(REVIEWS)) $(SOAK)

# Twenty nodes whose kubelets' managers are real, on a control plane of its own, until Ctrl-C; needs Go once.
# With KUBELETS=real the kubelets are real as a whole, and want root.
sim: $(READY)
	$(BIN)/python -m harness.sim $(if $(KUBELETS),--kubelets $(KUBELETS)) $(SIM)

# What pods meet with the stock scheduler, the webhook, and the scorer: docs/measurements/bench-e2e.md. Needs Go once.
bench-e2e: $(READY)
	$(BIN)/python -m bench.e2e $(BENCH_E2E)

# One table of what everything takes, docs/measurements/speed.md and its charts: make bench [BENCH="--only columns"]
bench: $(READY)
	$(BIN)/python -m bench --markdown docs/measurements/speed.md $(BENCH)

# A trace replayed under one strategy beside another, and docs/measurements/simulate.md of it: make simulate [TRACE=FOLDER]
simulate: $(READY)
	$(BIN)/python -m bench.replays --markdown docs/measurements/simulate.md $(if $(TRACE),--trace $(TRACE)) $(SIMULATE)

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
