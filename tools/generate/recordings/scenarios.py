"""
Scenarios drawn at random, of every kind that a kubelet can decide.

What is drawn is the kubelet's own input and says nothing about its answer: a machine, a configuration, and
pods that come and go. The same seed draws the same, as long as the kubelet answers the same.
"""

import random

from tools.generate.recordings import arrivals, hardware
from tools.generate.recordings.recipes import RECIPES, TOPOLOGY_OPTIONS, Draw, Json

THREADS_LABEL = "feature.node.kubernetes.io/cpu-hardware_multithreading"


def kinds(version: str) -> tuple[str, ...]:
    """The kinds that a version of Kubernetes knows, as in v1.34.4."""
    minor, overlay = int(version.split(".")[1]), version.partition("+")[2]
    return tuple(
        kind
        for kind, recipe in RECIPES.items()
        if recipe.get("since", 0) <= minor and recipe.get("overlay", "") == overlay
    )


def start(seed: int, kind: str, version: str) -> tuple[Json, arrivals.Steps]:
    """The scenario of this seed without its steps, and what draws these."""
    draw = Draw(random.Random(f"{kind}-{seed}"), RECIPES[kind])  # noqa: S311 - nothing here is a secret
    config = _config(draw)
    machine = hardware.machine(draw, config)
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
    return head, arrivals.steps(Draw(draw.rng, draw.recipe["pods"]), machine)


def _config(draw: Draw) -> Json:
    options = draw.pick("cpu_options").split(",")
    if options == ["any"]:
        options = draw.rng.sample(_EVERY, draw.rng.randint(2, 3))
    # Only a start that shall fail has what no kubelet starts with.
    sound = draw.recipe is not RECIPES["startup"]
    unfit = "single-numa-node" if sound and "align-by-socket" in options else ""
    config = {
        "topologyManagerPolicy": draw.rng.choice([one for one in draw.recipe["policies"] if one != unfit]),
        "topologyManagerScope": draw.pick("scopes"),
        "topologyManagerPolicyOptions": TOPOLOGY_OPTIONS[draw.pick("topology_options")],
        "cpuManagerPolicy": "static" if options != [""] and sound else draw.pick("cpu_managers"),
        "cpuManagerPolicyOptions": dict.fromkeys(filter(None, options), "true"),
        "memoryManagerPolicy": draw.pick("memory_managers"),
        "featureGates": dict.fromkeys(filter(None, [draw.pick("gates")]), True),
    }
    return {name: value for name, value in config.items() if value}


_EVERY = sorted({one for text in RECIPES["options"]["cpu_options"] for one in text.split(",") if one})
