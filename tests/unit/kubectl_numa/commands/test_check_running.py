"""check -A: running pods with findings by namespace, and an exit code for pipelines."""

import pytest

from tests.unit.kubectl_numa.conftest import Cli
from tests.unit.kubectl_numa.objects import SINGLE, levels, running
from tests.worlds.notation import table
from tests.worlds.objects import Json

WARNED = levels("warned", warn="restricted", audit=SINGLE)
LAX = running("lax", policy=None, namespace="warned")
BAD, GOOD = running("bad", 0, 1), running("good", 1)
PODS = (
    BAD, GOOD, LAX, running("unseen"),
    running("huge", cpu="40", policy=None, namespace="eager"),
    running("loose", policy=None, namespace="strict"),
    running("quiet", policy=None, namespace="default"),
)  # fmt: skip
STEERING = running("bad", 0, 1)
STEERING["metadata"]["name"] = "bad\x1b[31m"
NEVER = (
    'no node can align container "main" as single-numa-node (0 of 3 nodes): 1 has at most 32 cpu in'
    " one NUMA zone, 1 has at most 16 cpu in total, 1 publishes no NUMA topology. Request at most 32 cpu."
)
ENFORCED = 'namespace "strict" enforces NUMA alignment of at least restricted, and the pod requests none.'
SPREAD = (
    'container "main" holds cpu in zone 0 and zone 1 and memory in zone 0: 2 NUMA zones, and'
    " single-numa-node allows one"
)


def test_pods_with_findings_are_listed_by_namespace(cli: Cli) -> None:
    words = ("check", "-A", "--snapshot", cli.cluster(WARNED, *PODS))
    result = cli(*words, width=300)
    [refusal] = [pod["refusal"] for pod in cli.json(*words) if pod["name"] == "loose"]
    kinds = "1 misaligned, 1 below enforce, 1 below warn, 1 below audit, 2 would be denied now"
    expects = "this namespace expects NUMA alignment {}; the pod requests nothing".format

    assert (result.exit_code, refusal.startswith(ENFORCED)) == (1, True)
    assert result.stdout.splitlines() == [
        "eager  1 pod, 1 with findings: 1 would be denied now",
        "  huge  on big  single-numa-node",
        "      not judged: no agent reported what it holds",
        f"      would be denied now: {NEVER}",
        "strict  1 pod, 1 with findings: 1 below enforce, 1 would be denied now",
        "  loose  on big  no intent",
        f"      below enforce: {expects('restricted')}",
        f"      would be denied now: {refusal}",
        "team  3 pods, 1 with findings: 1 misaligned",
        "  bad  on big  single-numa-node",
        f"      misaligned: {SPREAD}",
        "warned  1 pod, 1 with findings: 1 below warn, 1 below audit",
        "  lax  on big  no intent",
        f"      below warn: {expects('restricted')}",
        f"      below audit: {expects(SINGLE)}",
        f"7 pods in 5 namespaces, 4 with findings: {kinds}",
    ]


def test_json_has_an_outcome_for_each_pod(cli: Cli) -> None:
    pods = cli.json("check", "-A", "--all", "--snapshot", cli.cluster(WARNED, *PODS))
    facts = {pod["name"]: [pod[key] for key in ("outcome", "aligned", "below", "admitted")] for pod in pods}
    by_name = {pod["name"]: pod for pod in pods}

    assert facts == {
        "bad": ["fail", False, [], True],
        "good": ["pass", True, [], True],
        "huge": ["fail", None, [], False],
        "lax": ["warn", None, ["warn", "audit"], True],
        "loose": ["fail", None, ["enforce"], False],
        "quiet": ["pass", None, [], None],
        "unseen": ["skip", None, [], True],
    }
    assert by_name["good"]["results"] == [
        {"rule": rule, "outcome": "pass", "message": None} for rule in ("aligned", "admitted-today")
    ]
    assert by_name["good"]["owner"] == {"kind": "ReplicaSet", "name": "web"}


EXEMPT = running("away", 0, 1, namespace="closed")
OUTCOMES = [
    # the pods beside one without intent, flags, the exit code, and what the text contains
    ("all well", [GOOD], "", 0, "no findings"),
    ("all well, listed", [GOOD], "--all", 0, "  good  on big  single-numa-node\n      no findings\n"),
    ("a warning", [LAX], "", 0, "below warn"),
    ("a preference unmet", [running("wish", 0, 1, policy="best-effort")], "", 0, "wish"),
    ("misaligned", [BAD], "", 1, SPREAD),
    ("denied now, its node is gone", [running("gone", cpu="40", node="larger")], "", 1,
        "denied now: no node can"),
    ("unreadable", [BAD, running("odd", policy="tight")], "", 2,
        '      unreadable: metadata.annotations[numalign.io/policy]: "tight" is not a known value'),
    ("exempt", [EXEMPT], "", 0, "2 pods in 2 namespaces, no findings"),
    ("exempt, listed", [EXEMPT], "--all", 0,
        "exempt: its namespace is labelled numalign.io/admission: disabled"),
    ("a name that steers terminals", [STEERING], "", 1, "bad\ufffd[31m"),
]  # fmt: skip


@pytest.mark.parametrize(("pods", "flags", "code", "part"), table(OUTCOMES))
def test_findings_give_the_exit_code(cli: Cli, pods: list[Json], flags: str, code: int, part: str) -> None:
    path = cli.cluster(WARNED, running("other", policy=None, namespace="default"), *pods)
    result = cli("check", "-A", *flags.split(), "--snapshot", path, width=300)

    assert (result.exit_code, part in result.stdout, "\x1b" in result.stdout) == (code, True, False)


def test_ended_leaving_and_pending_pods_are_not_checked(cli: Cli) -> None:
    leaving, pending = running("leaving", 0, 1), running("pending", cpu="40")
    leaving["metadata"]["deletionTimestamp"] = "2026-11-20T00:00:00Z"
    del pending["spec"]["nodeName"]
    ended = running("ended", 0, 1) | {"status": {"phase": "Failed"}}
    words = ("check", "-A", "--snapshot", cli.cluster(ended, leaving, pending))

    assert cli.text(*words) == "no matching pod is running\n"
