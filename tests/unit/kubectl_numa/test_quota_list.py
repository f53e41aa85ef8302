"""Quotas of exclusive CPUs: what is in use, and pods that wait for one."""

from pathlib import Path

from numalign.kube.decode.scheduling import REQUIRED
from numalign.runtime.clock import utc_now
from tests.unit.kubectl_numa.conftest import STORED, Cli
from tests.unit.kubectl_numa.objects import ITEMS, levels, running, topology, waiting
from tests.worlds.objects import Json

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
