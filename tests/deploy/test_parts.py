"""What is installed where it is wanted: the scorer, and a scheduler that asks it."""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import yaml

from numalign.kube import lease
from numalign.runtime import health, server, settings
from scorer.settings import PromiseAt, ScorerSettings
from tests.deploy.render import MANIFESTS, NAMESPACE, Object, identities, objects

SCORER = identities(objects(MANIFESTS / "scorer"))
SCHEDULER = identities(objects(MANIFESTS / "scheduler"))
NAME = "numalign-scorer"
DEPLOYMENT = SCORER["Deployment", NAME]
POD = DEPLOYMENT["spec"]["template"]["spec"]
[CONTAINER] = POD["containers"]
[SCHEDULING] = SCHEDULER["Deployment", "numalign-scheduler"]["spec"]["template"]["spec"]["containers"]
TOLD = yaml.safe_load(SCHEDULER["ConfigMap", "numalign-scheduler"]["data"]["scheduler.yaml"])
[EXTENDER] = TOLD["extenders"]

LARGEST = 2**31 - 1
"""What Kubernetes takes for no deadline (pkg/controller/deployment/util of k8s.io/kubernetes)."""


def test_neither_is_installed_with_the_webhook() -> None:
    """The right to bind pods is given where somebody asked for it."""
    assert identities(objects()).keys().isdisjoint(SCORER.keys() | SCHEDULER.keys())


# ---- the scorer: rights

Right = tuple[str, str, str, str]
"""Group, resource, verb, name (empty for any)."""


def rights(role: Object) -> Iterator[Right]:
    for rule in role["rules"]:
        yield from product(
            rule["apiGroups"], rule["resources"], rule["verbs"], rule.get("resourceNames", [""])
        )


def test_the_scorer_reads_the_cluster_binds_pods_writes_events_and_nothing_else() -> None:
    read = [
        ("", "nodes"),
        ("", "namespaces"),
        ("", "pods"),
        ("topology.node.k8s.io", "noderesourcetopologies"),
        ("resource.k8s.io", "deviceclasses"),
    ]
    assert Counter(rights(SCORER["ClusterRole", NAME])) == Counter(
        [
            *((group, resource, verb, "") for group, resource in read for verb in ("list", "watch")),
            ("", "pods/binding", "create", ""),
            ("", "events", "create", ""),
        ]
    )


def test_in_its_namespace_it_keeps_a_lease_reads_shapes_and_nothing_else() -> None:
    assert Counter(rights(SCORER["Role", NAME])) == Counter(
        [
            ("coordination.k8s.io", "leases", "create", ""),
            *(("coordination.k8s.io", "leases", verb, NAME) for verb in ("get", "update")),
            *(("", "configmaps", verb, "numalign-shapes") for verb in ("list", "watch")),
        ]
    )


# ---- the scorer: the one that leads


def test_no_rollout_waits_for_replicas_that_are_never_ready() -> None:
    """Two are wanted and one is ready: to keep one available would be to keep the old leader forever."""
    spec = DEPLOYMENT["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": "100%"}
    assert spec["progressDeadlineSeconds"] == LARGEST


def test_a_node_can_be_drained_of_the_one_that_is_ready() -> None:
    assert "PodDisruptionBudget" not in {kind for kind, _ in SCORER}


def test_the_service_learns_who_leads_before_a_lease_could_have_passed_on() -> None:
    probe = CONTAINER["readinessProbe"]
    assert probe["httpGet"] == {"path": "/readyz", "port": "metrics", "scheme": "HTTP"}
    unready = probe["periodSeconds"] * probe["failureThreshold"]
    assert unready < lease.LEASE_DURATION_SECONDS - lease.RENEW_DEADLINE_SECONDS


@pytest.mark.parametrize("probe", ["startupProbe", "livenessProbe"])
def test_a_replica_that_waits_is_alive(probe: str) -> None:
    assert CONTAINER[probe]["httpGet"] == {"path": health.HEALTH, "port": "metrics", "scheme": "HTTP"}


def test_the_service_leads_to_the_port_that_is_open() -> None:
    [port], [opened, _] = SCORER["Service", NAME]["spec"]["ports"], CONTAINER["ports"]
    assert (port["port"], port["targetPort"]) == (80, opened["name"])


# ---- the scorer: what it is told


def told() -> ScorerSettings:
    return settings.load(ScorerSettings, argv=CONTAINER["args"], environ={}).settings


def test_every_argument_is_a_setting_that_the_scorer_takes() -> None:
    opened, watched = CONTAINER["ports"]
    assert told().metrics_port == watched["containerPort"]
    assert (told().port, told().promise, told().insecure_http) == (
        opened["containerPort"],
        PromiseAt.BIND,
        True,
    )


def test_the_scorer_is_another_command_of_the_same_image() -> None:
    [webhook] = identities(objects())["Deployment", "numalign-webhook"]["spec"]["template"]["spec"][
        "containers"
    ]
    assert CONTAINER["image"] == webhook["image"]
    assert CONTAINER["command"] == ["/opt/numalign/bin/numalign-scorer"]


def test_it_is_given_the_time_to_end_that_it_takes() -> None:
    assert POD["terminationGracePeriodSeconds"] > told().drain_seconds + server.GRACE_SECONDS


# ---- who reaches whom


def labels(component: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": "numalign", "app.kubernetes.io/component": component}


def test_only_our_own_scheduler_may_call_the_scorer() -> None:
    """Whoever may can have pods bound to nodes of his choice."""
    [calls, metrics] = SCORER["NetworkPolicy", NAME]["spec"]["ingress"]
    assert metrics == {"ports": [{"protocol": "TCP", "port": CONTAINER["ports"][1]["containerPort"]}]}
    assert calls == {
        "from": [{"podSelector": {"matchLabels": labels("scheduler")}}],
        "ports": [{"protocol": "TCP", "port": CONTAINER["ports"][0]["containerPort"]}],
    }
    template = SCHEDULER["Deployment", "numalign-scheduler"]["spec"]["template"]
    assert template["metadata"]["labels"] == labels("scheduler")


def test_the_scorer_calls_nobody_but_the_api_server() -> None:
    assert let_out(SCORER["NetworkPolicy", NAME]) == {("UDP", 53), ("TCP", 53), ("TCP", 443), ("TCP", 6443)}


def test_the_scheduler_calls_the_api_server_and_the_scorer() -> None:
    policy = SCHEDULER["NetworkPolicy", "numalign-scheduler"]
    [opened, _] = CONTAINER["ports"]
    [to_scorer] = [rule for rule in policy["spec"]["egress"] if "to" in rule]
    assert to_scorer["to"] == [{"podSelector": {"matchLabels": labels("scorer")}}]
    assert let_out(policy) == {*let_out(SCORER["NetworkPolicy", NAME]), ("TCP", opened["containerPort"])}


def let_out(policy: Object) -> set[tuple[str, int]]:
    return {(port["protocol"], port["port"]) for rule in policy["spec"]["egress"] for port in rule["ports"]}


# ---- the scheduler


def test_the_scheduler_reads_the_configuration_that_is_mounted() -> None:
    [mount] = SCHEDULING["volumeMounts"]
    assert f"--config={mount['mountPath']}/scheduler.yaml" in SCHEDULING["args"]


def test_the_scheduler_has_a_name_and_a_lease_of_its_own() -> None:
    assert [profile["schedulerName"] for profile in TOLD["profiles"]] == ["numalign-scheduler"]
    assert TOLD["leaderElection"] == {
        "leaderElect": True,
        "resourceNamespace": NAMESPACE,
        "resourceName": "numalign-scheduler",
    }
    assert set(rights(SCHEDULER["Role", "numalign-scheduler"])) == {
        ("coordination.k8s.io", "leases", verb, "numalign-scheduler") for verb in ("get", "update")
    }


def test_the_scheduler_may_what_every_kube_scheduler_may() -> None:
    bindings = [each for (kind, _), each in SCHEDULER.items() if kind == "ClusterRoleBinding"]
    roles = {binding["roleRef"]["name"] for binding in bindings}
    assert roles == {"system:kube-scheduler", "system:volume-scheduler"}
    account = {"kind": "ServiceAccount", "name": "numalign-scheduler", "namespace": NAMESPACE}
    assert [binding["subjects"] for binding in bindings] == [[account], [account]]


def test_the_scheduler_asks_the_service_of_the_scorer() -> None:
    service = SCORER["Service", NAME]["metadata"]
    assert EXTENDER["urlPrefix"] == f"http://{service['name']}.{service['namespace']}.svc"
    assert "enableHTTPS" not in EXTENDER


def test_a_refused_bind_is_final_and_names_are_enough() -> None:
    assert (EXTENDER["bindVerb"], EXTENDER["ignorable"], EXTENDER["nodeCacheCapable"]) == (
        "bind",
        False,
        True,
    )


def seconds(text: Any) -> float:  # noqa: ANN401 whatever stands there
    assert text.endswith("s")
    return float(text.removesuffix("s"))


def test_the_scheduler_waits_longer_than_the_scorer_has_a_pod_wait() -> None:
    """What is left is for the write itself."""
    assert seconds(EXTENDER["httpTimeout"]) >= told().bind_wait_seconds + 1


def test_one_scheduler_may_go_and_one_stays() -> None:
    assert SCHEDULER["PodDisruptionBudget", "numalign-scheduler"]["spec"]["minAvailable"] == 1
    assert SCHEDULER["Deployment", "numalign-scheduler"]["spec"]["replicas"] == 2
