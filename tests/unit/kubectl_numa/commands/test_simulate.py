"""simulate: a trace on nodes of a table or on a cluster."""

import pytest

from tests.unit.kubectl_numa.conftest import Cli
from tests.unit.kubectl_numa.objects import machine_object, manifest, topology
from tests.worlds.objects import Json

NODES = "cpu_milli,memory_mib,gpu,model,count\n32000,65536,4,T4,2\n"
HEAD = "cpu_milli,memory_mib,num_gpu,gpu_milli,qos,count\n"
PODS = f"{HEAD}4000,1024,1,500,LS,6\n10000,2048,1,1000,LS,4\n"


def trace(cli: Cli, strategies: str, nodes: str = NODES, pods: str = PODS) -> tuple[object, ...]:
    """Return the words that simulate this trace."""
    tables = ("--nodes", cli.write("nodes.csv", nodes), "--pods", cli.write("pods.csv", pods))
    return ("simulate", *tables, "--strategies", strategies)


def gpu_node(policy: str = "restricted", second: tuple[str, str, str] = ("16", "64Gi", "1")) -> list[Json]:
    """A node of two zones with two GPUs each, of which these amounts are free in the second."""
    made = topology("gpu", "16", ("16", second[0]), policy=policy)
    for zone, memory, free in zip(made["zones"], ("64Gi", second[1]), ("2", second[2]), strict=True):
        gpu = {"name": "nvidia.com/gpu", "capacity": "2", "allocatable": "2", "available": free}
        cpu, ram = zone["resources"]
        zone["resources"] = [cpu, {**ram, "available": memory}, gpu]
    gpus = machine_object("gpu", **{"cpu": "32", "memory": "128Gi", "nvidia.com/gpu": "4"})
    return [made, gpus, machine_object("hidden", cpu="16", memory="128Gi")]


def on_cluster(cli: Cli, *objects: Json, pods: str = PODS, ratio: float = 0.01) -> tuple[object, ...]:
    """Return the words that simulate these pods on a cluster with GPUs."""
    tables = ("--snapshot", cli.cluster(items=[*objects]), "--pods", cli.write("pods.csv", pods))
    return ("simulate", *tables, "--strategies", "scorer", "--seeds", 1, "--ratio", ratio)


def test_strategies_are_compared_side_by_side(cli: Cli) -> None:
    head, stock, gate = cli.text(*trace(cli, "stock,gate"), "--seeds", 2).splitlines()

    assert head.split() == ["STRATEGY", "ALLOCATED", "FRAGMENTS", "STRANDED", "REFUSALS"]
    assert (stock.split()[0], gate.split()[0], gate.split()[-1]) == ("stock", "gate", "0")


def test_json_has_every_seed_and_the_curve(cli: Cli) -> None:
    command = (*trace(cli, "gate"), "--seeds", 2)
    [result] = cli.json(*command)
    runs = result["runs"]

    assert (result["strategy"], [run["seed"] for run in runs]) == ("gate", [42, 43])
    assert result["mean"]["allocated"] == pytest.approx(sum(run["allocated"] for run in runs) / 2, abs=0.001)
    assert result["curve"][-1]["allocated"] <= result["mean"]["allocated"]
    assert cli.text(*command, "-o", "name") == "strategy/gate\n"
    assert "LEAST ALLOCATED" in cli.text(*command, "-o", "wide")


def test_a_pod_too_large_for_a_zone_is_refused_by_stock(cli: Cli) -> None:
    """Twelve CPUs are free in two zones of sixteen, six in each, and a third pod requests ten."""
    tables = ("cpu_milli,memory_mib,gpu\n32000,65536,2\n", f"{HEAD}9500,1024,1,500,BE,3\n")
    command = (*trace(cli, "stock,gate", *tables), "--ratio", 0.75, "--seeds", 1)
    shared, pinned = cli.json(*command), cli.json(*command, "--pin-cpus")

    assert [each["mean"]["refusals"] for each in (*shared, *pinned)] == [0, 0, 5, 0]
    assert [each["mean"]["allocated"] for each in (*shared, *pinned)] == [75, 75, 50, 50]


def test_a_cluster_counts_with_its_pods(cli: Cli) -> None:
    gpus = [manifest(name, "1", nodeName="gpu") | {"status": {"phase": "Running"}} for name in "ab"]
    for pod in gpus:
        pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "2"
    for pods, allocated in (([], 25), (gpus, 100)):
        words = on_cluster(cli, *gpu_node(), *pods)
        assert cli.json(*words)[0]["mean"]["allocated"] == allocated
        assert "skipped: 1 node without a NUMA topology" in cli(*words).stderr


def test_charts_are_written(cli: Cli) -> None:
    path = cli.folder / "charts" / "simulate-allocated.svg"
    result = cli(*trace(cli, "gate"), "--seeds", 1, "--plots", path.parent)

    assert (result.exit_code, path.exists(), f"wrote {path}" in result.stderr) == (0, True, True)


OPTIONS = [
    ("", 1),
    ("prefer-most-allocated-numa-node=true", 0),
    ("numa-allocation-strategy=most-allocated numa-score-weights=cpu=0,memory=0", 1),
]


@pytest.mark.parametrize(("options", "turned_away"), OPTIONS)
def test_kubelet_options_decide_what_fits_later(cli: Cli, options: str, turned_away: int) -> None:
    """Half of zone 1 is in use: the large pod fits only if the small one leaves zone 0 empty."""
    nodes = gpu_node("single-numa-node", ("8", "32Gi", "2"))
    pods = "cpu_milli,memory_mib,num_gpu,gpu_milli,qos\n16000,1024,1,1000,LS\n4000,1024,0,0,LS\n"
    flags = [word for option in options.split() for word in ("--kubelet-option", option)]
    [result] = cli.json(*on_cluster(cli, *nodes, pods=pods, ratio=0.25), *flags)

    assert (result["mean"]["turned_away"], result["mean"]["aligned"]) == (turned_away, 2 - turned_away)
