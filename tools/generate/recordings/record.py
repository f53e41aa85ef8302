"""
Records what the kubelet's managers do, so that every run of the tests can ask them without Go.

    python -m tools.generate.recordings.record --version v1.36.3 [--scenarios N] [--seed S]

writes tests/kubelet/data/kubelet-v1.36.3.jsonl.gz: scenarios in the shape of the other recordings there.
Each is recorded several times, and ends before the first step that was not always the same, since no
prediction can be right about what is chance. Pods that do not fit the node as a whole are left out: no
scheduler sends them. The same seed (0 and 260 scenarios if not given) writes the same file, but for what is
chance. Exit code 69 says that there is no Go, 70 that building went wrong.
"""

import argparse
import gzip
import json
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tools.clusters.builds import ORACLE, RECORDED, versions
from tools.clusters.oracle.managers import Managers
from tools.generate.recordings import scenarios
from tools.generate.recordings.compare import drawn, record
from tools.generate.recordings.hardware import PAGES, for_pods
from tools.generate.recordings.search import built

Json = dict[str, Any]

FOLDER = Path(__file__).resolve().parents[3] / "tests" / "kubelet" / "data"
TIMES = 10
"""How often a scenario is recorded; what is chance then shows, but for one case in hundreds."""

LEAST = 2
"""A scenario with fewer decisions shows nothing that others do not."""


def recordings(managers: Managers, version: str, *, count: int, seed: int) -> Iterator[Json]:
    """So many scenarios with what the kubelet did, of each kind in turn."""
    kinds = [kind for kind in scenarios.kinds(version) if kind != "startup"]
    for number in range(count):
        first = drawn(managers, seed + number // len(kinds), kinds[number % len(kinds)], version)
        if "refused" in first:
            continue
        found = recorded(managers, first)
        if sum("create" in step for step in found["steps"]) >= LEAST:
            yield found


def recorded(managers: Managers, scenario: Json) -> Json:
    """A scenario as far as the kubelet always does the same, without what is said elsewhere."""
    names = [step.get("delete") or step["create"]["metadata"]["name"] for step in scenario["steps"]]
    steps = list(zip(names, scenario["steps"], strict=True))
    unfit = {name for name, step in steps if not step.get("fits", True)}
    fitting = scenario | {"steps": [step for name, step in steps if name not in unfit]}
    same: list[Json] = []
    for first, *others in zip(*(record(managers, fitting)["steps"] for _ in range(TIMES)), strict=False):
        if any(other != first for other in others):
            break
        same.append(first if "delete" in first else {"create": first["create"], "expect": _brief(first)})
    head = {key: value for key, value in scenario.items() if key not in ("steps", "ended")}
    return head | {"nrt": published(managers, scenario), "steps": same}


def _brief(step: Json) -> Json:
    """A decision without what is said elsewhere, or for people only."""
    left_out = ("pod", "message")
    return {key: value for key, value in step["expect"].items() if value is not None and key not in left_out}


def published(managers: Managers, scenario: Json) -> Json:
    """The NodeResourceTopology that an exporter publishes while the node is empty, in random order.

    Managers that are off are not listed, nor devices that are unhealthy or of no zone.
    """
    nothing = {"containers": [{"name": "c", "image": "busybox", "resources": {}}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": nothing}
    free = record(managers, scenario | {"steps": [{"create": pod}]})["steps"][0]["expect"]["free"]
    rng = random.Random(scenario["name"])  # noqa: S311 - only an order
    config, zones = scenario["kubeletConfig"], scenario["machine"]["zones"]
    words = ("topologyManagerPolicy", "topologyManagerScope")
    listed = [_zone(rng, scenario, zone, free[str(zone["id"])].get("cpu", 0) // 1000) for zone in zones]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": scenario["name"]},
        "attributes": [{"name": word, "value": config[word]} for word in words],
        "zones": rng.sample(listed, len(listed)),
    }


def _zone(rng: random.Random, scenario: Json, zone: Json, cpus: int) -> Json:
    config, machine = scenario["kubeletConfig"], scenario["machine"]
    # Of each resource its capacity, and what is allocatable.
    amounts: dict[str, tuple[int, int]] = {}
    if config["memoryManagerPolicy"] == "Static":
        amounts["memory"] = (zone["memory"], for_pods(zone))
        amounts |= {f"hugepages-{size}": (PAGES[size] * n,) * 2 for size, n in zone["hugepages"].items()}
    for name, listed in machine["devices"].items():
        here = sum(zone["id"] in device["zones"] and device.get("healthy", True) for device in listed)
        amounts[name] = (here, here)
    # A zone of which all CPUs are reserved lists them only if it has nothing else to list.
    if config["cpuManagerPolicy"] == "static" and (cpus or not any(size for size, _ in amounts.values())):
        amounts = {"cpu": (sum(map(len, zone["cores"])), cpus), **amounts}
    resources = [
        {"name": name, "capacity": str(capacity), "allocatable": str(left), "available": str(left)}
        for name, (capacity, left) in amounts.items()
        if capacity
    ]
    costs = [
        {"name": f"node-{other['id']}", "value": far}
        for other, far in zip(machine["zones"], zone.get("distances", []), strict=False)
    ]
    found = {"name": f"node-{zone['id']}", "type": "Node", "resources": rng.sample(resources, len(resources))}
    return found | ({"costs": costs} if costs else {})


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.generate.recordings.record")
    usual = f"of Kubernetes; {RECORDED} if not given"
    parser.add_argument("--version", choices=versions(ORACLE), default=RECORDED, help=usual)
    parser.add_argument("--scenarios", type=int, default=260, help="drawn; %(default)s if not given")
    parser.add_argument("--seed", type=int, default=0, help="the first one; %(default)s if not given")
    options = parser.parse_args(arguments)
    with Managers(built(options.version)) as managers:
        found = list(recordings(managers, options.version, count=options.scenarios, seed=options.seed))
    path = FOLDER / f"kubelet-{options.version}.jsonl.gz"
    # The same scenarios make the same bytes.
    lines = "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in found)
    path.write_bytes(gzip.compress(lines.encode(), compresslevel=9, mtime=0))
    decided = [step["expect"]["admitted"] for one in found for step in one["steps"] if "create" in step]
    sys.stdout.write(f"{path}: {len(found)} scenarios, {len(decided)} decisions, {sum(decided)} admitted\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
