"""The oracle decides as when the recordings were made, and reports clearly what it cannot do.

Which of several equal devices a container gets is chance, in the kubelet as well. From then on a recording
tells of another node, so a scenario is followed to there and no further.
"""

import asyncio
import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kubectl_numa.kubelet_versions import ROWS, VersionChange, described
from tests.worlds.opt_in import ORACLE
from tools.clusters import builds
from tools.clusters.oracle.managers import Ended, Hung, Managers, Mistaken

Json = dict[str, Any]

# The first test may have to build the program.
pytestmark = [pytest.mark.oracle, pytest.mark.timeout(1800)]

RECORDINGS = Path(__file__).resolve().parents[1] / "data"
EVERY = 11
OURS = ("cpu", "memory", "hugepages-")


def scenarios() -> list[Json]:
    with gzip.open(RECORDINGS / "kubelet-synthetic.jsonl.gz", "rt") as lines:
        return [json.loads(line) for number, line in enumerate(lines) if number % EVERY == 0]


VERSIONS = [version for version in builds.versions(builds.ORACLE) if "+" not in version]


@pytest.fixture(scope="module", params=VERSIONS)
def binary(request: pytest.FixtureRequest) -> Path:
    with ORACLE.or_skipped():
        return asyncio.run(builds.managers(request.param))


@pytest.fixture
def managers(binary: Path) -> Iterator[Managers]:
    with Managers(binary) as started:
        yield started


def machine(*, zones: int = 2, cpus: int = 4, **more: object) -> Json:
    """Equal zones on sockets of their own; the first CPU is reserved."""
    return {
        "zones": [
            {
                "id": zone,
                "socket": zone,
                "cores": [[cpu] for cpu in range(zone * cpus, (zone + 1) * cpus)],
                "memory": 1 << 34,
                "distances": [10 if other == zone else 21 for other in range(zones)],
            }
            for zone in range(zones)
        ],
        "reservedSystemCPUs": "0",
        **more,
    }


def node(*, on: Json | None = None, **config: object) -> Json:
    static = {"cpuManagerPolicy": "static", "topologyManagerPolicy": "restricted"}
    return {"name": "n", "kubeletConfig": {**static, **config}, "machine": machine() if on is None else on}


def pod(name: str, **limits: object) -> Json:
    """One container; an API server would add requests that equal the limits."""
    container = {"name": "c", "resources": {"limits": {"cpu": "1", "memory": "1Mi", **limits}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


def known(decision: Mapping[str, Any]) -> Json:
    """What is not chance: everything but which devices, and of those how many."""
    containers = decision.get("containers", {})
    return {
        "verdict": [decision.get(field) for field in ("admitted", "reason", "message")],
        "free": split(decision["free"] or {}),
        "given": {
            name: [
                [got.get(field) for field in ("affinity", "preferred", "cpus")],
                split(got.get("amounts", {})),
            ]
            for name, got in containers.items()
        },
    }


def split(amounts: Mapping[str, Mapping[str, int]]) -> tuple[Json, Counter[str]]:
    """CPUs and memory where they are, and the sum of each kind of device."""
    placed, devices = {}, Counter[str]()
    for zones, bag in amounts.items():
        for resource, amount in bag.items():
            if resource.startswith(OURS):
                placed[f"{zones} {resource}"] = amount
            else:
                devices[resource] += amount
    return placed, devices


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: scenario["name"])
def test_managers_decide_as_recorded(scenario: Json) -> None:
    with ORACLE.or_skipped():
        program = asyncio.run(builds.managers())
    with Managers(program, seconds=20) as managers:
        assert managers.node(scenario) is None
        for step in scenario["steps"]:
            if "delete" in step:
                managers.delete(step["delete"])
                continue
            decision = managers.create(step["create"])
            assert decision.pop("pod") == step["create"]["metadata"]["name"]
            assert known(decision) == known(step["expect"])
            if decision != step["expect"]:
                break


REFUSALS = {
    "a policy that is none": (node(topologyManagerPolicy="wild"), "must be one of"),
    "a gate that it does not know": (node(featureGates={"NoSuchGate": True}), "unrecognized feature gate"),
    "no memory kept from pods": (node(memoryManagerPolicy="Static"), "system reserved memory"),
    "more zones than it can merge": (node(on=machine(zones=9)), "more than 8 NUMA Nodes"),
    "reserved CPUs that are not there": (node(on=machine(reservedSystemCPUs="99")), "99 are not all among"),
}


@pytest.mark.parametrize(("spec", "reason"), REFUSALS.values(), ids=REFUSALS)
def test_kubelet_that_does_not_start_has_a_reason(managers: Managers, spec: Json, reason: str) -> None:
    assert reason in str(managers.node(spec))
    with pytest.raises(Mistaken, match="did not start"):
        managers.create(pod("p"))


def test_panic_is_reported_and_ends_the_node(managers: Managers) -> None:
    on = machine()
    on["zones"][0]["reservedMemory"] = 1 << 20
    assert managers.node(node(on=on, memoryManagerPolicy="Static")) is None
    # The memory manager looks up every size of page that is asked for, and no zone has heard of this one.
    reason = managers.create(pod("p", **{"hugepages-2Mi": "2Mi"}))
    assert (reason["pod"], "nil pointer" in reason["panicked"]) == ("p", True)
    with pytest.raises(Mistaken, match="the kubelet panicked over pod p"):
        managers.create(pod("q"))
    assert managers.node(node()) is None


def test_endless_merge_is_ended_and_the_node_gone(binary: Path) -> None:
    names = ("example.com/a", "example.com/b", "example.com/c")
    devices = {name: [{"id": f"{zone}", "zones": [zone]} for zone in range(8)] for name in names}
    with Managers(binary, seconds=1) as managers:
        assert (
            managers.node(node(on=machine(zones=8, devices=devices), topologyManagerPolicy="best-effort"))
            is None
        )
        with pytest.raises(Hung, match="no answer in 1 s"):
            # Of other widths: since 1.38 hints that are all preferred and alike are sought first.
            managers.create(pod("p", cpu="3", **dict(zip(names, "123", strict=True))))
        with pytest.raises(Mistaken, match="no node yet"):
            managers.create(pod("p"))
        assert managers.node(node()) is None


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted"])
@pytest.mark.parametrize(
    ("reserved", "endless"), [("32,48", True), ("32-33,48-49", False)], ids=["parts of cores", "whole cores"]
)
def test_up_to_1_37_cpu_search_may_be_endless(
    binary: Path, policy: str, reserved: str, *, endless: bool
) -> None:
    """`kubectl numa doctor` says so (endless-search)."""
    on = machine(zones=4, cpus=16, reservedSystemCPUs=reserved)
    for zone in on["zones"]:
        zone["cores"] = [[first, first + 1] for first in range(16 * zone["id"], 16 * zone["id"] + 16, 2)]
    distributing = {"full-pcpus-only": "true", "distribute-cpus-across-numa": "true"}
    with Managers(binary, seconds=2) as managers:
        assert (
            managers.node(node(on=on, cpuManagerPolicyOptions=distributing, topologyManagerPolicy=policy))
            is None
        )
        if endless and not binary.parent.parent.name.startswith("v1.38"):
            with pytest.raises(Hung, match="no answer in 2 s"):
                managers.create(pod("p", cpu="54"))
        else:
            assert managers.create(pod("p", cpu="54"))["admitted"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.change)
def test_managers_change_with_their_version_as_documented(binary: Path, row: VersionChange) -> None:
    """`kubectl numa versions` and docs/reference/kubelet-versions.md say so."""
    minor = int(binary.parent.parent.name.split(".")[1])
    with Managers(binary, seconds=2) as managers:
        refused = managers.node(row.case.node)
        if refused is not None:
            # Before its gate there was nothing to change.
            assert "unrecognized feature gate" in refused
            assert minor < row.minor - 1
        elif row.endless and minor < row.minor:
            with pytest.raises(Hung, match="no answer in 2 s"):
                managers.create(row.case.pods[0])
        else:
            done = [managers.create(made) for made in row.case.pods]
            assert described(done) == described(row.case.predictions(minor))


def test_program_that_ends_is_reported_with_its_output(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho out of order >&2\nexit 3\n")
    broken.chmod(0o755)
    with Managers(broken) as managers, pytest.raises(Ended, match="exit code 3: out of order"):
        managers.node(node())
