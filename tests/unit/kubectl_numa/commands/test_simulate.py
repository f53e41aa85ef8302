"""`kubectl numa simulate`: a trace on nodes with zones made up or on a cluster, and what can be wrong."""

import json
from collections.abc import Callable
from errno import ENOENT
from os import strerror
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.kubectl_numa.conftest import Run
from tests.unit.kubectl_numa.objects import known
from tests.worlds.notation import table

NODES = "cpu_milli,memory_mib,gpu,model,count\n32000,65536,4,T4,2\n"
PODS = "cpu_milli,memory_mib,num_gpu,gpu_milli,qos,count\n4000,1024,1,500,LS,6\n10000,2048,1,1000,LS,4\n"


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    for path, text in zip(paths, (NODES, PODS), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


@pytest.fixture
def cluster_with_gpus(tmp_path: Path) -> Path:
    """One node of two zones with two GPUs each, of which one is taken, and a node that publishes nothing."""
    resources = [
        {"name": "cpu", "capacity": "16", "allocatable": "16", "available": "16"},
        {"name": "memory", "capacity": "64Gi", "allocatable": "64Gi", "available": "64Gi"},
    ]
    zones = [
        {
            "name": f"node-{zone}",
            "type": "Node",
            "resources": [
                *resources,
                {"name": "nvidia.com/gpu", "capacity": "2", "allocatable": "2", "available": free},
            ],
        }
        for zone, free in enumerate(("2", "1"))
    ]
    topology = {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "gpu"},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": "restricted"},
            {"name": "topologyManagerScope", "value": "container"},
        ],
        "zones": zones,
    }
    allocatable = {"cpu": "32", "memory": "128Gi", "nvidia.com/gpu": "4"}
    items: list[dict[str, Any]] = [
        topology,
        known("Node", "gpu", status={"allocatable": allocatable}),
        known("Node", "hidden", status={"allocatable": {"cpu": "16", "memory": "128Gi"}}),
    ]
    path = tmp_path / "gpus.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


def test_strategies_stand_side_by_side(run: Run, tables: tuple[Path, Path]) -> None:
    nodes, pods = tables
    result = run("simulate", "--nodes", nodes, "--pods", pods, "--strategies", "stock,gate", "--seeds", 2)
    assert result.exit_code == 0
    head, stock, gate = result.stdout.splitlines()
    assert head.split() == ["STRATEGY", "ALLOCATED", "FRAGMENTS", "STRANDED", "REFUSALS"]
    assert stock.startswith("stock ")
    assert gate.startswith("gate ")
    assert gate.split()[-1] == "0"


def test_programs_get_every_seed_and_the_curve(run: Run, tables: tuple[Path, Path]) -> None:
    nodes, pods = tables
    command = ("simulate", "--nodes", nodes, "--pods", pods, "--strategies", "gate", "--seeds", 2, "-o")
    (found,) = json.loads(run(*command, "json").stdout)
    assert found["strategy"] == "gate"
    assert [one["seed"] for one in found["runs"]] == [42, 43]
    assert found["mean"]["allocated"] == pytest.approx(
        sum(one["allocated"] for one in found["runs"]) / 2, abs=0.001
    )
    assert found["curve"][-1]["allocated"] <= found["mean"]["allocated"]
    assert yaml.safe_load(run(*command, "yaml").stdout) == [found]
    assert run(*command, "name").stdout == "strategy/gate\n"
    assert "LEAST ALLOCATED" in run(*command, "wide").stdout


def test_a_pod_that_a_zone_has_no_room_for_is_refused_by_stock_alone(run: Run, tmp_path: Path) -> None:
    """Twelve CPUs are free in two zones of sixteen, six in each, and a third pod asks for ten."""
    nodes, pods = tmp_path / "n.csv", tmp_path / "p.csv"
    nodes.write_text("cpu_milli,memory_mib,gpu\n32000,65536,2\n", encoding="utf-8")
    pods.write_text(
        "cpu_milli,memory_mib,num_gpu,gpu_milli,qos,count\n9500,1024,1,500,BE,3\n", encoding="utf-8"
    )
    command = ("simulate", "--nodes", nodes, "--pods", pods, "--ratio", 0.75, "--seeds", 1, "-o", "json")
    loose = json.loads(run(*command, "--strategies", "stock,gate").stdout)
    pinned = json.loads(run(*command, "--strategies", "stock,gate", "--pin-cpus").stdout)
    assert [one["mean"]["refusals"] for one in loose] == [0, 0]
    assert [one["mean"]["refusals"] for one in pinned] == [5, 0]
    assert [one["mean"]["allocated"] for one in (*loose, *pinned)] == [75, 75, 50, 50]


def test_a_cluster_counts_as_it_is_now(run: Run, tables: tuple[Path, Path], cluster_with_gpus: Path) -> None:
    result = run(
        *("simulate", "--snapshot", cluster_with_gpus, "--pods", tables[1], "--strategies", "scorer"),
        *("--seeds", 1, "--ratio", 0.01, "-o", "json"),
    )
    (found,) = json.loads(result.stdout)
    assert found["mean"]["allocated"] == 25
    assert "skipped: 1 node without a NUMA topology" in result.stderr


def test_charts_are_written(run: Run, tables: tuple[Path, Path], tmp_path: Path) -> None:
    nodes, pods = tables
    folder = tmp_path / "charts"
    result = run(
        *(
            "simulate",
            "--nodes",
            nodes,
            "--pods",
            pods,
            "--strategies",
            "gate",
            "--seeds",
            1,
            "--plots",
            folder,
        )
    )
    assert result.exit_code == 0
    assert {path.name for path in folder.iterdir()} >= {"simulate-allocated.svg"}
    assert f"wrote {folder / 'simulate-allocated.svg'}" in result.stderr


def test_mistakes_of_both_tables_are_told_at_once(run: Run, tables: tuple[Path, Path]) -> None:
    nodes, pods = tables
    nodes.write_text("cpu_milli,gpu\n1,2\n", encoding="utf-8")
    pods.write_text("cpu_milli,memory_mib,num_gpu,gpu_milli\n1,x,2,500\n", encoding="utf-8")
    result = run("simulate", "--nodes", nodes, "--pods", pods)
    assert result.exit_code == 2
    assert 'nodes.csv: there is no column "memory_mib"' in result.stderr
    assert "pods.csv:2: memory_mib is 'x': a whole number is needed" in result.stderr


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param(
            ("--strategies", "stok,gate,worst"),
            ['"stok" is not one of stock, webhook,', "did you mean stock?", '"worst" is not one of'],
            id="strategies",
        ),
        pytest.param(("--zones", 9), ["--zones", "9", "8"], id="too many zones"),
        pytest.param(("--ratio", 11), ["--ratio", "11", "0.01", "10"], id="a ratio"),
        pytest.param(("--ratio", "nan"), ["--ratio", "nan"], id="no number"),
        pytest.param(("--seeds", 0), ["--seeds", "50"], id="no seed"),
        pytest.param(("--topology-policy", "strict"), ["--topology-policy", "strict"], id="a policy"),
        pytest.param(("--plots", "/nowhere/charts"), [f"/nowhere/charts: {strerror(ENOENT)}"], id="a folder"),
    ],
)
def test_bad_flags_are_told(
    run: Run, tables: tuple[Path, Path], flags: tuple[object, ...], expected: list[str]
) -> None:
    nodes, pods = tables
    result = run("simulate", "--nodes", nodes, "--pods", pods, *flags)
    assert result.exit_code == 2
    assert all(words in result.stderr for words in expected)


OPTIONS_THAT_ARE_WRONG = [
    # what it shows           option                                    what is said
    ("an unknown one",        "numa-allocation-stratgy=none",
        ['"numa-allocation-stratgy" is not one of prefer-closest-numa-nodes, prefer-most-allocated-numa',
            "did you mean numa-allocation-strategy?"]),
    ("one without a value",   "numa-allocation-strategy",
        ['numa-allocation-strategy is "": write numa-allocation-strategy=VALUE, with none, most-']),
    ("a value that is none",  "numa-allocation-strategy=most",
        ['numa-allocation-strategy is "most": write numa-allocation-strategy=VALUE, with none,']),
    ("weights that are none", "numa-score-weights=cpu=101",
        ['numa-score-weights is "cpu=101": write numa-score-weights=VALUE, with weights from 0 to 100']),
    ("no switch",             "prefer-most-allocated-numa-node=yes", ["with true or false"]),
]  # fmt: skip


@pytest.mark.parametrize(("option", "expected"), table(OPTIONS_THAT_ARE_WRONG))
def test_kubelet_options_that_do_not_exist_are_told(
    run: Run, tables: tuple[Path, Path], option: str, expected: list[str]
) -> None:
    nodes, pods = tables
    result = run("simulate", "--nodes", nodes, "--pods", pods, "--kubelet-option", option)
    assert result.exit_code == 2
    assert all(words in result.stderr for words in ["--kubelet-option: ", *expected])


def test_every_wrong_option_is_told_at_once(run: Run, tables: tuple[Path, Path]) -> None:
    nodes, pods = tables
    told = ("x=1", "numa-score-weights=cpu=1", "numa-score-weights=cpu=2")
    flags = [word for option in told for word in ("--kubelet-option", option)]
    result = run("simulate", "--nodes", nodes, "--pods", pods, *flags)
    assert '"x" is not one of' in result.stderr
    assert "numa-score-weights is given twice" in result.stderr


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
def test_an_option_of_the_kubelet_decides_whether_a_later_pod_fits(
    run: Run, write: Callable[..., Path], cluster_with_gpus: Path, options: list[str], turned_away: int
) -> None:
    """Half of zone 1 is in use: whether the small pod leaves zone 0 whole decides about the large one."""
    cluster = json.loads(cluster_with_gpus.read_text())
    cluster["items"][0]["attributes"][0]["value"] = "single-numa-node"
    for resource, free in zip(cluster["items"][0]["zones"][1]["resources"], ("8", "32Gi", "2"), strict=True):
        resource["available"] = free
    cluster_with_gpus.write_text(json.dumps(cluster))
    head = "cpu_milli,memory_mib,num_gpu,gpu_milli,qos\n"
    pods = write("pods.csv", f"{head}16000,1024,1,1000,LS\n4000,1024,0,0,LS\n")
    flags = [word for option in options for word in ("--kubelet-option", option)]
    seed = ("--seeds", 1, "--ratio", 0.25, "-o", "json")
    result = run(
        "simulate", "--snapshot", cluster_with_gpus, "--pods", pods, "--strategies", "scorer", *seed, *flags
    )
    [found] = json.loads(result.stdout)
    assert found["mean"]["turned_away"] == turned_away
    assert found["mean"]["aligned"] == 2 - turned_away


def test_zones_are_made_up_for_tables_alone(run: Run, tables: tuple[Path, Path], cluster_file: Path) -> None:
    flags = ("--zones", 2, "--topology-scope", "pod")
    result = run("simulate", "--snapshot", cluster_file, "--pods", tables[1], *flags)
    assert result.exit_code == 2
    assert "--zones, --topology-scope: needs nodes of a trace (--nodes)" in result.stderr


def test_a_cluster_without_gpus_is_told(run: Run, tables: tuple[Path, Path], cluster_file: Path) -> None:
    result = run("simulate", "--snapshot", cluster_file, "--pods", tables[1])
    assert result.exit_code == 2
    assert "no node has a GPU" in result.stderr


def test_a_file_that_is_missing_is_told(run: Run, tables: tuple[Path, Path]) -> None:
    result = run("simulate", "--nodes", tables[0], "--pods", "/nowhere.csv")
    assert result.exit_code == 2
    assert f"/nowhere.csv: {strerror(ENOENT)}" in result.stderr


def test_pods_hold_what_the_exporter_has_not_counted(
    run: Run, tables: tuple[Path, Path], cluster_with_gpus: Path
) -> None:
    cluster = json.loads(cluster_with_gpus.read_text())
    limits = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "2"}
    spec = {"nodeName": "gpu", "containers": [{"name": "main", "resources": {"limits": limits}}]}
    cluster["items"] += [known("Pod", name, spec=spec, status={"phase": "Running"}) for name in "ab"]
    cluster_with_gpus.write_text(json.dumps(cluster))
    result = run(
        *("simulate", "--snapshot", cluster_with_gpus, "--pods", tables[1], "--strategies", "scorer"),
        *("--seeds", 1, "--ratio", 0.01, "-o", "json"),
    )
    (found,) = json.loads(result.stdout)
    assert found["mean"]["allocated"] == 100
