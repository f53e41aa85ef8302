"""simulate: a trace on nodes of a table or on a cluster."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.kubectl_numa.conftest import Cli
from tests.unit.kubectl_numa.objects import machine_object, manifest, topology
from tests.worlds.objects import Json

NODES = "cpu_milli,memory_mib,gpu,model,count\n32000,65536,4,T4,2\n"
HEAD = "cpu_milli,memory_mib,num_gpu,gpu_milli,qos,count\n"
PODS = f"{HEAD}4000,1024,1,500,LS,6\n10000,2048,1,1000,LS,4\n"


def trace(cli: Cli, nodes: str = NODES, pods: str = PODS) -> tuple[object, ...]:
    """Return the words that simulate this trace."""
    return ("simulate", "--nodes", cli.write("nodes.csv", nodes), "--pods", cli.write("pods.csv", pods))


def gpu_node(policy: str = "restricted", second: tuple[str, str, str] = ("16", "64Gi", "1")) -> list[Json]:
    """A node of two zones with two GPUs each, of which these amounts are free in the second."""
    made = topology("gpu", "16", ("16", second[0]), policy=policy)
    for zone, memory, free in zip(made["zones"], ("64Gi", second[1]), ("2", second[2]), strict=True):
        gpu = {"name": "nvidia.com/gpu", "capacity": "2", "allocatable": "2", "available": free}
        zone["resources"] = [*({**each, "available": memory} if each["name"] == "memory" else each
                               for each in zone["resources"]), gpu]  # fmt: skip
    return [
        made,
        machine_object("gpu", **{"cpu": "32", "memory": "128Gi", "nvidia.com/gpu": "4"}),
        machine_object("hidden", cpu="16", memory="128Gi"),
    ]


def on_cluster(cli: Cli, *objects: Json, pods: str = PODS, ratio: float = 0.01) -> tuple[object, ...]:
    """Return the words that simulate these pods on a cluster with GPUs."""
    snapshot = cli.cluster(items=[*objects])
    words = ("simulate", "--snapshot", snapshot, "--pods", cli.write("pods.csv", pods))
    return (*words, "--strategies", "scorer", "--seeds", 1, "--ratio", ratio)


def test_strategies_are_compared_side_by_side(cli: Cli) -> None:
    head, stock, gate = cli.text(*trace(cli), "--strategies", "stock,gate", "--seeds", 2).splitlines()

    assert head.split() == ["STRATEGY", "ALLOCATED", "FRAGMENTS", "STRANDED", "REFUSALS"]
    assert (stock.split()[0], gate.split()[0], gate.split()[-1]) == ("stock", "gate", "0")


def test_json_has_every_seed_and_the_curve(cli: Cli) -> None:
    command = (*trace(cli), "--strategies", "gate", "--seeds", 2)
    [result] = cli.json(*command)
    runs = result["runs"]

    assert result["strategy"] == "gate"
    assert [run["seed"] for run in runs] == [42, 43]
    assert result["mean"]["allocated"] == pytest.approx(sum(run["allocated"] for run in runs) / 2, abs=0.001)
    assert result["curve"][-1]["allocated"] <= result["mean"]["allocated"]
    assert yaml.safe_load(cli.text(*command, "-o", "yaml")) == [result]
    assert cli.text(*command, "-o", "name") == "strategy/gate\n"
    assert "LEAST ALLOCATED" in cli.text(*command, "-o", "wide")


def test_a_pod_too_large_for_a_zone_is_refused_by_stock(cli: Cli) -> None:
    """Twelve CPUs are free in two zones of sixteen, six in each, and a third pod requests ten."""
    words = trace(cli, "cpu_milli,memory_mib,gpu\n32000,65536,2\n", f"{HEAD}9500,1024,1,500,BE,3\n")
    command = (*words, "--ratio", 0.75, "--seeds", 1, "--strategies", "stock,gate")
    shared, pinned = cli.json(*command), cli.json(*command, "--pin-cpus")

    assert [each["mean"]["refusals"] for each in (*shared, *pinned)] == [0, 0, 5, 0]
    assert [each["mean"]["allocated"] for each in (*shared, *pinned)] == [75, 75, 50, 50]


@pytest.mark.parametrize(("pods", "allocated"), [(0, 25), (2, 100)])
def test_a_cluster_counts_with_its_pods(cli: Cli, pods: int, allocated: int) -> None:
    gpus = [manifest(name, "1", nodeName="gpu") | {"status": {"phase": "Running"}} for name in "ab"[:pods]]
    for pod in gpus:
        pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "2"
    words = on_cluster(cli, *gpu_node(), *gpus)

    assert cli.json(*words)[0]["mean"]["allocated"] == allocated
    assert "skipped: 1 node without a NUMA topology" in cli(*words).stderr


def test_charts_are_written(cli: Cli) -> None:
    folder: Path = cli.folder / "charts"
    result = cli(*trace(cli), "--strategies", "gate", "--seeds", 1, "--plots", folder)

    assert result.exit_code == 0
    assert {path.name for path in folder.iterdir()} >= {"simulate-allocated.svg"}
    assert f"wrote {folder / 'simulate-allocated.svg'}" in result.stderr


@pytest.mark.parametrize(
    ("options", "turned_away"),
    [
        ([], 1),
        (["numa-allocation-strategy=most-allocated"], 0),
        (["prefer-most-allocated-numa-node=true"], 0),
        (["numa-allocation-strategy=least-allocated"], 1),
        (["numa-allocation-strategy=most-allocated", "numa-score-weights=cpu=0,memory=0"], 1),
    ],
)
def test_kubelet_options_decide_what_fits_later(cli: Cli, options: list[str], turned_away: int) -> None:
    """Half of zone 1 is in use: the large pod fits only if the small one leaves zone 0 empty."""
    nodes = gpu_node("single-numa-node", ("8", "32Gi", "2"))
    pods = "cpu_milli,memory_mib,num_gpu,gpu_milli,qos\n16000,1024,1,1000,LS\n4000,1024,0,0,LS\n"
    flags = [word for option in options for word in ("--kubelet-option", option)]
    mean: dict[str, Any] = cli.json(*on_cluster(cli, *nodes, pods=pods, ratio=0.25), *flags)[0]["mean"]

    assert (mean["turned_away"], mean["aligned"]) == (turned_away, 2 - turned_away)
