"""check -A: running pods with findings by namespace, and an exit code for pipelines."""

import pytest

from tests.unit.kubectl_numa.conftest import Cli
from tests.unit.kubectl_numa.objects import SINGLE, levels, running
from tests.worlds.notation import table
from tests.worlds.objects import Json

WARNED = levels("warned", warn="restricted", audit=SINGLE)
HUGE = running("huge", cpu="40", policy=None, namespace="eager")
LAX = running("lax", policy=None, namespace="warned")
PODS = (
    running("bad", 0, 1),
    running("good", 1),
    HUGE,
    LAX,
    running("loose", policy=None, namespace="strict"),
    running("quiet", policy=None, namespace="default"),
    running("unseen"),
)
STEERING = running("bad", 0, 1)
STEERING["metadata"]["name"] = "bad\x1b[31m"
NEVER = (
    'no node can align container "main" as single-numa-node (0 of 3 nodes): 1 has at most 32 cpu in'
    " one NUMA zone, 1 has at most 16 cpu in total, 1 publishes no NUMA topology. Request at most 32 cpu."
)
ENFORCED = (
    'namespace "strict" enforces NUMA alignment of at least restricted, and the pod requests none. Set'
    " annotation numalign.io/policy to restricted or single-numa-node."
)
SPREAD = (
    'container "main" holds cpu in zone 0 and zone 1 and memory in zone 0: 2 NUMA zones, and'
    " single-numa-node allows one"
)


def test_pods_with_findings_are_listed_by_namespace(cli: Cli) -> None:
    result = cli("check", "-A", "--snapshot", cli.cluster(WARNED, *PODS), width=300)
    kinds = "1 misaligned, 1 below enforce, 1 below warn, 1 below audit, 2 would be denied now"
    expects = "this namespace expects NUMA alignment {}; the pod requests nothing".format

    assert result.exit_code == 1, result.output
    assert result.stdout.splitlines() == [
        "eager  1 pod, 1 with findings: 1 would be denied now",
        "  huge  on big  single-numa-node",
        "      not judged: no agent reported what it holds",
        f"      would be denied now: {NEVER}",
        "strict  1 pod, 1 with findings: 1 below enforce, 1 would be denied now",
        "  loose  on big  no intent",
        f"      below enforce: {expects('restricted')}",
        f"      would be denied now: {ENFORCED}",
        "team  3 pods, 1 with findings: 1 misaligned",
        "  bad  on big  single-numa-node",
        f"      misaligned: {SPREAD}",
        "warned  1 pod, 1 with findings: 1 below warn, 1 below audit",
        "  lax  on big  no intent",
        f"      below warn: {expects('restricted')}",
        f"      below audit: {expects(SINGLE)}",
        f"7 pods in 5 namespaces, 4 with findings: {kinds}",
    ]


def test_all_lists_pods_without_findings_too(cli: Cli) -> None:
    result = cli("check", "-n", "team", "--all", "--snapshot", cli.cluster(*PODS), width=200)

    assert result.stdout.splitlines()[-5:] == [
        "  good  on big  single-numa-node",
        "      no findings",
        "  unseen  on big  single-numa-node",
        "      not judged: no agent reported what it holds",
        "3 pods in 1 namespace, 1 with findings: 1 misaligned",
    ]


def test_json_has_an_outcome_for_each_pod(cli: Cli) -> None:
    pods = cli.json("check", "-A", "--all", "--snapshot", cli.cluster(WARNED, *PODS))
    by_name = {pod["name"]: pod for pod in pods}

    assert {
        name: (pod["outcome"], pod["aligned"], pod["below"], pod["admitted"]) for name, pod in by_name.items()
    } == {
        "bad": ("fail", False, [], True),
        "good": ("pass", True, [], True),
        "huge": ("fail", None, [], False),
        "lax": ("warn", None, ["warn", "audit"], True),
        "loose": ("fail", None, ["enforce"], False),
        "quiet": ("pass", None, [], None),
        "unseen": ("skip", None, [], True),
    }
    assert by_name["good"]["results"] == [
        {"rule": rule, "outcome": "pass", "message": None} for rule in ("aligned", "admitted-today")
    ]
    assert by_name["loose"]["refusal"] == ENFORCED
    assert by_name["good"]["owner"] == {"kind": "ReplicaSet", "name": "web"}


# the pods beside one without intent, the exit code, and what the text contains
OUTCOMES = [
    ("all well", [running("good", 1)], 0, "no findings"),
    ("a warning", [LAX], 0, "below warn"),
    ("a preference unmet", [running("wish", 0, 1, policy="best-effort")], 0, "wish"),
    ("only memory is pinned", [running("half", cpu="2500m")], 0,
        "would get a warning now: single-numa-node applies to memory only: cpu is not pinned, because"),
    ("misaligned", [running("bad", 0, 1)], 1, SPREAD),
    ("denied now", [running("huge", cpu="40")], 1, "would be denied now: no node can align"),
    ("denied now, its node is gone", [running("gone", cpu="40", node="larger")], 1,
        "denied now: no node can"),
    ("unreadable", [running("bad", 0, 1), running("odd", policy="tight")], 2,
        '      unreadable: metadata.annotations[numalign.io/policy]: "tight" is not a known value'),
    ("exempt", [running("away", 0, 1, namespace="closed")], 0, "2 pods in 2 namespaces, no findings"),
    ("a name that steers terminals", [STEERING], 1, "bad\ufffd[31m"),
]  # fmt: skip


@pytest.mark.parametrize(("pods", "code", "part"), table(OUTCOMES))
def test_findings_give_the_exit_code(cli: Cli, pods: list[Json], code: int, part: str) -> None:
    plain = running("other", policy=None, namespace="default")
    result = cli("check", "-A", "--snapshot", cli.cluster(WARNED, plain, *pods), width=300)

    assert (result.exit_code, part in result.stdout, "\x1b" in result.stdout) == (code, True, False)


def test_an_exempt_pod_is_listed_on_request(cli: Cli) -> None:
    path = cli.cluster(running("away", 0, 1, namespace="closed"))
    text = cli.text("check", "-A", "--all", "--snapshot", path)

    assert "exempt: its namespace is labelled numalign.io/admission: disabled" in text


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ("-n strict", ["loose"]),
        ("-A -l app!=bad,app!=good,app!=huge,app!=quiet,app!=loose", ["unseen", "lax"]),
        ("-n team -l app!=bad", ["good", "unseen"]),
        ("-l app=lax", ["lax"]),
        ("-A -l app=other", []),
    ],
)
def test_pods_are_selected_by_namespace_and_labels(cli: Cli, flags: str, names: list[str]) -> None:
    pods = cli.json("check", "--all", *flags.split(), "--snapshot", cli.cluster(WARNED, *PODS))

    assert [pod["name"] for pod in pods] == names


def test_ended_leaving_and_pending_pods_are_not_checked(cli: Cli) -> None:
    leaving, pending = running("leaving", 0, 1), running("pending", cpu="40")
    leaving["metadata"]["deletionTimestamp"] = "2026-11-20T00:00:00Z"
    del pending["spec"]["nodeName"]
    ended = running("ended", 0, 1) | {"status": {"phase": "Failed"}}

    assert cli.text("check", "-A", "--snapshot", cli.cluster(ended, leaving, pending)) == (
        "no matching pod is running\n"
    )
