"""What is installed where it is wanted: the scorer, and a scheduler that asks it."""

from numalign.kube import lease
from numalign.runtime import server
from scorer.settings import ReserveAt, ScorerSettings
from tools.generate.manifests import NAMESPACE, Object, installed

SCORER, SCHEDULER = installed("scorer"), installed("scheduler")
NAME = "numalign-scorer"
DEPLOYMENT = SCORER["Deployment", NAME]
CONTAINER = SCORER.container(NAME)
SETTINGS = SCORER.settings(NAME, ScorerSettings)
SCHEDULING = SCHEDULER.container("numalign-scheduler")
CONFIGURATION = SCHEDULER.scheduler_configuration()
[EXTENDER] = CONFIGURATION["extenders"]

LARGEST = 2**31 - 1
"""What Kubernetes takes for no deadline (pkg/controller/deployment/util of k8s.io/kubernetes)."""


def test_neither_is_installed_with_the_webhook() -> None:
    """The right to bind pods is given where somebody asked for it."""
    assert installed(".").keys().isdisjoint(SCORER.keys() | SCHEDULER.keys())


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


def test_the_service_leads_to_the_port_that_is_open() -> None:
    [port], [opened, _] = SCORER["Service", NAME]["spec"]["ports"], CONTAINER["ports"]
    assert (port["port"], port["targetPort"]) == (80, opened["name"])


# ---- the scorer: what it is told


def test_every_argument_is_a_setting_that_the_scorer_takes() -> None:
    opened, watched = (port["containerPort"] for port in CONTAINER["ports"])
    assert (SETTINGS.port, SETTINGS.metrics_port) == (opened, watched)
    assert (SETTINGS.reserve_at, SETTINGS.insecure_http) == (ReserveAt.BIND, True)
    # It is given the time to end that it takes.
    grace = SCORER.pod(NAME)["terminationGracePeriodSeconds"]
    assert grace > SETTINGS.drain_seconds + server.GRACE_SECONDS


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
    assert [profile["schedulerName"] for profile in CONFIGURATION["profiles"]] == ["numalign-scheduler"]
    assert CONFIGURATION["leaderElection"] == {
        "leaderElect": True,
        "resourceNamespace": NAMESPACE,
        "resourceName": "numalign-scheduler",
    }


def test_the_scheduler_asks_the_service_of_the_scorer() -> None:
    service = SCORER["Service", NAME]["metadata"]
    assert EXTENDER["urlPrefix"] == f"http://{service['name']}.{service['namespace']}.svc"
    assert "enableHTTPS" not in EXTENDER


def test_a_refused_bind_is_final_names_are_enough_and_a_bind_has_its_time() -> None:
    """What is left of the time beside the wait of a pod is for the write itself."""
    assert EXTENDER["bindVerb"] == "bind"
    assert (EXTENDER["ignorable"], EXTENDER["nodeCacheCapable"]) == (False, True)
    timeout = EXTENDER["httpTimeout"]
    assert timeout.endswith("s")
    assert float(timeout.removesuffix("s")) >= SETTINGS.bind_wait_seconds + 1


def test_one_scheduler_may_go_and_one_stays() -> None:
    assert SCHEDULER["PodDisruptionBudget", "numalign-scheduler"]["spec"]["minAvailable"] == 1
    assert SCHEDULER["Deployment", "numalign-scheduler"]["spec"]["replicas"] == 2
