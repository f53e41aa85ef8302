"""pods: what running pods hold, whether they are aligned, rejections by kubelets, and quotas."""

from pathlib import Path

from numalign.kube.decode.scheduling import REQUIRED
from numalign.model.intent import PLACEMENT, PLACEMENT_OBSERVED
from numalign.runtime.clock import utc_now
from tests.unit.kubectl_numa.conftest import STORED, Cli
from tests.unit.kubectl_numa.objects import ITEMS, levels, manifest, rejected, running, topology, waiting
from tests.worlds.objects import Json, machine_zone, node, nrt, reported

PODS = (running("good", 1), running("bad", 0, 1), running("reserved", 0, 1, key=PLACEMENT))


def annotated(pod: Json, key: str, value: str) -> Json:
    pod["metadata"]["annotations"][key] = value
    return pod


def test_each_pod_is_judged(cli: Cli) -> None:
    words = ("pods", "--snapshot", cli.cluster(*PODS))
    bad, good, reserved = cli.json(*words)

    assert cli.text(*words).splitlines() == [
        "team/bad  on big  single-numa-node  misaligned",
        "    zone 0: 4 cpu, 4Gi memory; zone 1: 4 cpu",
        f"    {bad['why']}",
        "team/good  on big  single-numa-node  aligned",
        "    zone 1: 8 cpu, 4Gi memory",
        "team/reserved  on big  single-numa-node  not judged",
        "    zone 0: 4 cpu, 4Gi memory; zone 1: 4 cpu",
        "    no agent reported what it holds",
        "3 pods: 1 misaligned, 1 aligned, 1 not judged",
    ]
    assert [pod["aligned"] for pod in (bad, good, reserved)] == [False, True, None]
    assert [pod["known"] for pod in (bad, good, reserved)] == ["observed", "observed", "recorded"]
    assert (bad["judgement"], good["why"]) == ("misaligned", None)
    assert bad["why"].endswith("single-numa-node allows one")
    assert good["placement"] == [{"zones": ["node-1"], "amount": {"cpu": "8", "memory": "4Gi"}}]


def test_exclusive_pods_list_pods_in_their_zones(cli: Cli) -> None:
    alone = annotated(running("alone", 1), "numalign.io/exclusive", "zone")
    words = ("pods", "--snapshot", cli.cluster(alone, running("near", 1), running("far", 0)))

    assert (
        "team/alone  on big  single-numa-node, exclusive  aligned\n    zone 1: 8 cpu, 4Gi memory\n    shares"
        " its zones with team/near\n"
    ) in cli.text(*words)
    assert [(pod["name"], pod["exclusive"], pod["sharesWith"]) for pod in cli.json(*words)] == [
        ("alone", "zone", ["team/near"]),
        ("far", None, []),
        ("near", None, []),
    ]


def test_pods_without_a_policy_or_node_are_not_listed(cli: Cli) -> None:
    ended = running("ended", 0, 1) | {"status": {"phase": "Succeeded", "startTime": "2026-11-20T00:00:00Z"}}
    words = ("pods", "--snapshot", cli.cluster(ended, waiting("waiting"), running("plain", 0, policy="none")))

    assert cli.text(*words) == "no running pod requests alignment\n"
    assert cli.text(*words, "--all", "-o", "name") == "pod/plain\n"
    assert "team/plain  on big  none  not requested" in cli.text(*words, "--all")


def test_a_broken_annotation_leaves_the_other_pods(cli: Cli) -> None:
    broken = annotated(running("broken", 0, 1), PLACEMENT_OBSERVED, "{")
    result = cli("pods", "--snapshot", cli.cluster(broken, running("good", 1)))

    assert (result.exit_code, "skipped: " in result.stderr) == (0, True)
    assert "2 pods: 1 aligned, 1 not judged" in result.stdout


def test_latest_rejections_come_first(cli: Cli) -> None:
    failed = rejected("failed") | {"status": {"phase": "Failed", "reason": "Error"}}
    old, new = rejected("old", minutes=90), rejected("new", reason="OutOfcpu")
    words = ("pods", "--rejected", "--snapshot", cli.cluster(old, new, failed, manifest("b")))
    first, second = cli.json(*words)
    _, row, _ = cli.text(*words, "-o", "wide").splitlines()

    assert cli.text(*words, width=80).splitlines() == [
        "default/new of ReplicaSet/web",
        "    rejected by big 4 min ago: OutOfcpu: Resources cannot be allocated",
        "default/old of ReplicaSet/web",
        "    rejected by big 1 h ago: TopologyAffinityError: Resources cannot be",
        "    allocated",
        "2 pods: 1 OutOfcpu, 1 TopologyAffinityError",
    ]
    assert " ".join(row.split()).startswith("default new big 4 min ago OutOfcpu ReplicaSet/web")
    assert (first["name"], first["node"], first["reason"]) == ("new", "big", "OutOfcpu")
    assert (second["namespace"], second["owner"]) == ("default", {"kind": "ReplicaSet", "name": "web"})
    assert first["at"] > second["at"]


ALL = {
    "held": [
        {"zones": ["node-0"], "amount": {"cpu": "1"}},
        {"zones": ["node-1"], "amount": {"cpu": "2", "x/gpu": "1"}},
    ],
    "cpus": "2,4-5",
}
GPU = {"held": [{"zones": ["node-1"], "amount": {"x/gpu": "1"}}]}
IN_PART = (
    'restricted applies to x/gpu only: cpu is not pinned, because container "main" requests 2500m cpu,'
    " which is not a whole number"
)


def described(cli: Cli, cpu: str = "3", report: Json = ALL) -> Path:
    """Write a snapshot of a node whose agent reports this of its pod."""
    zones = [machine_zone(0, reservedMemory=None), machine_zone(1, reservedMemory=None)]
    devices = {"x/gpu": [{"zones": [1], "total": 2, "healthy": 2}]}
    machine = {"zones": zones, "reservedSystemCPUs": "0", "devices": devices}
    pod = running("train", policy="restricted", node="a")
    limits = {"cpu": cpu, "memory": "1Gi", "x/gpu": "1"}
    pod["spec"]["containers"][0]["resources"]["limits"] = limits
    topology = reported(nrt("a", "node-0", "node-1"), machine, pods={pod["metadata"]["uid"]: report})
    return cli.cluster(items=[node("a"), topology, pod])


def test_cpu_ids_are_listed_by_zone(cli: Cli) -> None:
    words = ("pods", "--snapshot", described(cli))
    [pod] = cli.json(*words)
    _, row = cli.text(*words, "-o", "wide").splitlines()

    assert "    CPUs 2 in node-0; 4-5 in node-1" in cli.text(*words).splitlines()
    assert " ".join(row.split()).startswith(
        "team train a restricted misaligned node-0,node-1 3 2,4-5 <none> 1 x/gpu"
    )
    assert (pod["cpus"], pod["cpusByZone"]) == ("2,4-5", {"node-0": "2", "node-1": "4-5"})
    assert pod["known"] == "kubelet"


def test_a_pod_with_aligned_devices_only_has_its_reason(cli: Cli) -> None:
    path = described(cli, "2500m", GPU)
    [pod] = cli.json("pods", "--snapshot", path)
    [checked] = cli.json("check", "-A", "--snapshot", path)

    assert cli.text("pods", "--snapshot", path).splitlines() == [
        "team/train  on a  restricted  aligned (devices only)",
        "    zone 1: 1 x/gpu",
        f"    {IN_PART}",
        "1 pod: 1 aligned (devices only)",
    ]
    assert (pod["judgement"], pod["why"]) == ("aligned", IN_PART)
    assert checked["results"][0] == {"rule": "aligned", "outcome": "pass", "message": IN_PART}
    for document in (pod, checked):
        facts = [document[key] for key in ("aligned", "extent", "notPinned")]
        assert facts == [True, "devices only", ["cpu"]]
    assert "devices only" in cli("check", "-A", "--snapshot", path, "-o", "wide").stdout


OLD = running("old", policy=None)
NEW = waiting("new", "4", policy=None)
QUOTAS = [levels(name, **{"exclusive-cpus": limit}) for name, limit in (("team", "10"), ("calm", "4"))]
WAITS = "8 of 10 exclusive CPUs of namespace team are in use, and the pod requests 4"


def with_quotas(cli: Cli, *pods: Json, items: list[Json] = ITEMS) -> Path:
    """Write a cluster in which `team` uses 8 of 10 CPUs, and `calm` none of 4."""
    return cli.cluster(
        *QUOTAS, OLD, NEW, running("far", policy=None, namespace="default"), *pods, items=items
    )


def explained(cli: Cli, path: Path, name: str) -> Json:
    [document] = cli.json("explain", name, "-n", "team", "--snapshot", path)
    quota: Json = document["quota"]
    return quota


def test_namespaces_with_a_quota_have_their_use(cli: Cli) -> None:
    words = ("pods", "--quota", "--snapshot", with_quotas(cli))

    assert cli.text(*words) == (
        "calm  0 of 4 exclusive CPUs in use\n"
        "team  8 of 10 exclusive CPUs in use, 4 more requested by pods without a node\n"
        "2 namespaces with a limit of exclusive CPUs\n"
    )
    assert cli.json(*words, "-n", "team") == [{"namespace": "team", "used": 8, "pending": 4, "limit": 10}]


def test_cpus_of_a_pinned_pod_are_in_use(cli: Cli) -> None:
    now = utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["big"]}]}
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}
    pinned = waiting("pinned", "1", policy=None, affinity=affinity)
    pinned["metadata"] |= {"creationTimestamp": now, "annotations": {"numalign.io/pinned-at": now}}
    gated = levels("team", gate="enabled", **{"exclusive-cpus": "10"})
    path = cli.cluster(gated, OLD, NEW, pinned)
    [quota] = cli.json("pods", "--quota", "-n", "team", "--snapshot", path)

    assert (quota["used"], quota["pending"]) == (9, 4)


def test_the_policy_file_limits_other_namespaces(cli: Cli) -> None:
    policy = cli.write("policy.yaml", "defaults: [{exclusiveCPUs: 6}]")
    quotas = cli.json("pods", "--quota", "-A", "--policy", policy, "--snapshot", with_quotas(cli))

    others = dict.fromkeys(("closed", "eager", "strict"), (0, 6))
    assert {each["namespace"]: (each["used"], each["limit"]) for each in quotas} == {
        **others, "calm": (0, 4), "default": (8, 6), "team": (8, 6),
    }  # fmt: skip


def test_a_cluster_without_quotas_is_reported(cli: Cli) -> None:
    words = ("pods", "--quota", "--snapshot")

    assert cli.text(*words, cli.cluster(OLD)) == "no namespace has a limit of exclusive CPUs\n"
    assert "contains no pods on nodes" in cli(*words, cli.cluster(STORED)).stderr


def test_a_pod_that_waits_for_its_quota_is_explained(cli: Cli) -> None:
    path = with_quotas(cli, waiting("free", "4", policy=None, namespace="default"))
    text = cli.text("explain", "new", "-n", "team", "--snapshot", path)
    causes = {cause["oldest"]["name"]: cause for cause in cli.json("pending", "--snapshot", path)}

    assert f"  waits for the quota of its namespace: {WAITS}\n" in text
    assert explained(cli, path, "new") == {"used": 8, "requested": 4, "limit": 10, "waits": True}
    assert explained(cli, path, "old") is None
    assert (causes["new"]["verdict"], causes["new"]["reason"]) == ("quota", WAITS)
    assert causes["free"]["verdict"] == "fits"


def test_nodes_without_pinned_cpus_have_no_quota(cli: Cli) -> None:
    """One of the nodes, and then both, list no CPUs; the last is that of the running pod."""
    items = [topology("big", "32", ("8", "32")), topology("small", "8", ("8", "8")), *ITEMS[2:]]
    quotas = []
    for made in reversed(items[:2]):
        for zone in made["zones"]:
            zone["resources"] = [each for each in zone["resources"] if each["name"] != "cpu"]
        quota = explained(cli, with_quotas(cli, items=items), "new")
        quotas.append((quota["used"], quota["waits"]))

    assert quotas == [(8, False), (0, False)]
