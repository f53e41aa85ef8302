"""
Scenarios drawn at random, of every kind that a kubelet can be asked.

What is drawn is the kubelet's own input and says nothing about its answer: a machine, a configuration, and
pods that come and go. The same seed draws the same, as long as the kubelet answers the same.
"""

import random
from collections.abc import Mapping
from typing import Any

from tools.generate.recordings import arrivals, hardware
from tools.generate.recordings.recipes import OVERLAID, RECIPES, SINCE, SOCKET, Recipe

Json = dict[str, Any]

THREADS_LABEL = "feature.node.kubernetes.io/cpu-hardware_multithreading"


def kinds(version: str) -> tuple[str, ...]:
    """The kinds that a version of Kubernetes knows, as in v1.34.4."""
    minor, overlay = int(version.split(".")[1]), version.partition("+")[2]
    return tuple(
        kind for kind in RECIPES if SINCE.get(kind, 0) <= minor and OVERLAID.get(kind, "") == overlay
    )


def start(seed: int, kind: str, version: str) -> tuple[Json, arrivals.Steps]:
    """The scenario of this seed without its steps, and what draws these."""
    rng, recipe = random.Random(f"{kind}-{seed}"), RECIPES[kind]  # noqa: S311 - nothing here is a secret
    config = _config(rng, recipe)
    machine = hardware.machine(rng, recipe, config)
    threads = max(len(core) for zone in machine["zones"] for core in zone["cores"])
    head = {
        "name": f"{kind}-{seed}",
        "kind": kind,
        "kubeletVersion": version,
        "machine": machine,
        "kubeletConfig": config,
        # As node-feature-discovery would set them.
        "labels": {THREADS_LABEL: str(threads > 1).lower()},
    }
    return head, arrivals.steps(rng, recipe.taste, machine)


def _config(rng: random.Random, recipe: Recipe) -> Json:
    options = _cpu_options(rng, recipe)
    # Only a start that shall fail has what no kubelet starts with.
    sound = recipe is not RECIPES["startup"]
    unfit = {"single-numa-node"} if sound and SOCKET in options else set[str]()
    policies = [one for one in recipe.policies if one not in unfit]
    config = {
        "topologyManagerPolicy": rng.choice(policies),
        "topologyManagerScope": rng.choice(recipe.scopes),
        "topologyManagerPolicyOptions": _TOPOLOGY[rng.choice(recipe.topology_options)],
        "cpuManagerPolicy": "static" if options and sound else rng.choice(recipe.cpu_managers),
        "cpuManagerPolicyOptions": dict.fromkeys(options, "true"),
        "memoryManagerPolicy": rng.choice(recipe.memory_managers),
        "featureGates": dict.fromkeys(filter(None, [rng.choice(recipe.gates)]), True),
    }
    return {name: value for name, value in config.items() if value}


def _cpu_options(rng: random.Random, recipe: Recipe) -> list[str]:
    chosen = rng.choice(recipe.cpu_options)
    if chosen == "any":
        return rng.sample(_EVERY, rng.randint(2, 3))
    return chosen.split(",") if chosen else []


_EVERY = sorted({one for texts in RECIPES["options"].cpu_options for one in texts.split(",") if one})

_TOPOLOGY: Mapping[str, Mapping[str, str]] = {
    "": {},
    "closest": {"prefer-closest-numa-nodes": "true"},
    "max": {"max-allowable-numa-nodes": "12"},
    "all": {"max-allowable-numa-nodes": "64"},
    "all closest": {"max-allowable-numa-nodes": "64", "prefer-closest-numa-nodes": "true"},
    "few": {"max-allowable-numa-nodes": "4"},
    "packed": {"prefer-most-allocated-numa-node": "true"},
    "packed closest": {"prefer-most-allocated-numa-node": "true", "prefer-closest-numa-nodes": "true"},
    "unpacked": {"prefer-most-allocated-numa-node": "false"},
    "most": {"numa-allocation-strategy": "most-allocated"},
    "least": {"numa-allocation-strategy": "least-allocated"},
    "none": {"numa-allocation-strategy": "none", "numa-score-weights": "cpu=7"},
    "most weighed": {"numa-allocation-strategy": "most-allocated", "numa-score-weights": "cpu=3,memory=0"},
    "least weighed": {
        "numa-allocation-strategy": "least-allocated",
        "numa-score-weights": "memory=5, cpu=2,",
    },
    "most of one": {
        "numa-allocation-strategy": "most-allocated",
        "numa-score-weights": "cpu=0,memory=0,hugepages-1Gi=0,hugepages-2Mi=0",
    },
    "most closest": {"numa-allocation-strategy": "most-allocated", "prefer-closest-numa-nodes": "true"},
    "least closest": {"numa-allocation-strategy": "least-allocated", "prefer-closest-numa-nodes": "true"},
}
