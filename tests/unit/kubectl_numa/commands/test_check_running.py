"""check -A: the running pods that fall short, by namespace, and an exit code for pipelines."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.unit.kubectl_numa.objects import ITEMS, SINGLE, known, manifest
from tests.worlds.notation import table

Run = Callable[..., Result]
Snapshot = Callable[..., Path]


def running(
    name: str, *zones: int, cpu: str = "8", policy: str | None = SINGLE, namespace: str = "team"
) -> dict[str, Any]:
    """A pod that runs on the node `big`, and was observed to have CPUs from these zones."""
    pod = manifest(name, cpu, policy=policy, namespace=namespace)
    pod["metadata"] |= {"uid": f"uid-of-{name}", "labels": {"app": name}}
    if zones:
        share = {"cpu": str(int(cpu) // len(zones))}
        amounts = [share | ({} if at else {"memory": "4Gi"}) for at in range(len(zones))]
        held = [{"zones": [f"node-{zone}"], "amount": bag} for zone, bag in zip(zones, amounts, strict=True)]
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations["numalign.io/placement-observed"] = json.dumps(held)
    pod["spec"]["nodeName"] = "big"
    return pod | {"status": {"phase": "Running", "startTime": "2026-11-20T00:00:00Z"}}


def namespace(name: str, **levels: str) -> dict[str, Any]:
    """A namespace with levels of its own."""
    labels = {f"numalign.io/{level}": policy for level, policy in levels.items()}
    return known("Namespace", name, metadata={"labels": labels})


@pytest.fixture
def with_objects(tmp_path: Path) -> Snapshot:
    """A snapshot of the small cluster with these objects beside."""

    def of(*objects: object) -> Path:
        path = tmp_path / "with-objects.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*ITEMS, *objects]}))
        return path

    return of


WARNED = namespace("warned", warn="restricted", audit=SINGLE)
PODS = (
    running("bad", 0, 1),
    running("good", 1),
    running("huge", cpu="40", policy=None, namespace="eager"),
    running("lax", policy=None, namespace="warned"),
    running("loose", policy=None, namespace="strict"),
    running("quiet", policy=None, namespace="default"),
    running("unseen"),
)


def entries(result: Result) -> dict[str, Any]:
    """The entries of a JSON answer by the names of pods."""
    return {entry["name"]: entry for entry in json.loads(result.stdout)}


def test_a_pod_that_is_not_pinned_would_be_warned_of(run: Run, with_objects: Snapshot) -> None:
    result = run("check", "-A", "--snapshot", with_objects(running("half", cpu="2500m")), COLUMNS="300")

    assert result.exit_code == 0, result.output
    assert "would get a warning now: single-numa-node applies to memory only: cpu is not pinned, because" in (
        result.stdout
    )


def test_offenders_stand_under_their_namespace(run: Run, with_objects: Snapshot) -> None:
    result = run("check", "-A", "--snapshot", with_objects(WARNED, *PODS), COLUMNS="300")

    assert result.exit_code == 1, result.output
    refused = (
        'no node can align container "main" as single-numa-node (0 of 3 nodes): 1 has at most 32 cpu in'
        " one NUMA zone, 1 has at most 16 cpu in total, 1 publishes no NUMA topology. Request at most 32"
        " cpu."
    )
    enforced = (
        'namespace "strict" enforces NUMA alignment of at least restricted, and the pod requests none. Set'
        " annotation numalign.io/policy to restricted or single-numa-node."
    )
    misaligned = (
        'container "main" holds cpu in zone 0 and zone 1 and memory in zone 0: 2 NUMA zones, and'
        " single-numa-node allows one"
    )
    sorts = "1 misaligned, 1 below enforce, 1 below warn, 1 below audit, 2 would be denied now"
    assert result.stdout.splitlines() == [
        "eager  1 pod, 1 with findings: 1 would be denied now",
        "  huge  on big  single-numa-node",
        "      not judged: no agent reported what it holds",
        f"      would be denied now: {refused}",
        "strict  1 pod, 1 with findings: 1 below enforce, 1 would be denied now",
        "  loose  on big  no intent",
        "      below enforce: this namespace expects NUMA alignment restricted; the pod requests nothing",
        f"      would be denied now: {enforced}",
        "team  3 pods, 1 with findings: 1 misaligned",
        "  bad  on big  single-numa-node",
        f"      misaligned: {misaligned}",
        "warned  1 pod, 1 with findings: 1 below warn, 1 below audit",
        "  lax  on big  no intent",
        "      below warn: this namespace expects NUMA alignment restricted; the pod requests nothing",
        "      below audit: this namespace expects NUMA alignment single-numa-node; the pod requests nothing",
        f"7 pods in 5 namespaces, 4 with findings: {sorts}",
    ]


def test_all_shows_those_that_fall_short_of_nothing_too(run: Run, with_objects: Snapshot) -> None:
    result = run("check", "-n", "team", "--all", "--snapshot", with_objects(*PODS), COLUMNS="200")

    assert result.stdout.splitlines()[-5:] == [
        "  good  on big  single-numa-node",
        "      no findings",
        "  unseen  on big  single-numa-node",
        "      not judged: no agent reported what it holds",
        "3 pods in 1 namespace, 1 with findings: 1 misaligned",
    ]


def test_a_table_has_a_line_for_each(run: Run, with_objects: Snapshot) -> None:
    file = with_objects(WARNED, running("lax", policy=None, namespace="warned"), running("good", 1))
    wants = "this namespace expects NUMA alignment {}; the pod requests nothing".format
    why = f"below warn: {wants('restricted')}; below audit: {wants(SINGLE)}"

    assert run("check", "-A", "--snapshot", file, "-o", "wide").stdout.splitlines() == [
        "NAMESPACE   NAME   OUTCOME   POLICY   ALIGNED   BELOW        ADMITTED   NODE   OWNER    WHY",
        f"warned      lax    warn      <none>   <none>    warn,audit   yes        big    <none>   {why}",
    ]
    assert run("check", "-A", "--all", "--snapshot", file, "-o", "name").stdout == "pod/good\npod/lax\n"


def test_programs_read_the_same(run: Run, with_objects: Snapshot) -> None:
    answer = run("check", "-A", "--all", "-o", "json", "--snapshot", with_objects(WARNED, *PODS))
    by_name = entries(answer)

    shown = {
        name: (pod["outcome"], pod["aligned"], pod["below"], pod["admitted"]) for name, pod in by_name.items()
    }
    assert shown == {
        "bad": ("fail", False, [], True),
        "good": ("pass", True, [], True),
        "huge": ("fail", None, [], False),
        "lax": ("warn", None, ["warn", "audit"], True),
        "loose": ("fail", None, ["enforce"], False),
        "quiet": ("pass", None, [], None),
        "unseen": ("skip", None, [], True),
    }
    assert by_name["good"]["results"] == [
        {"rule": "aligned", "outcome": "pass", "message": None},
        {"rule": "admitted-today", "outcome": "pass", "message": None},
    ]
    assert by_name["loose"]["refusal"].startswith(
        'namespace "strict" enforces NUMA alignment of at least restricted'
    )


@pytest.mark.parametrize(
    ("pods", "code"),
    table(
        [
            ("all is well", [running("good", 1)], 0),
            ("a warning is none", [running("lax", policy=None, namespace="warned")], 0),
            ("a wish unmet is a warning", [running("wish", 0, 1, policy="best-effort")], 0),
            ("one is misaligned", [running("bad", 0, 1)], 1),
            ("one would be refused", [running("huge", cpu="40")], 1),
            ("one cannot be read", [running("bad", 0, 1), running("odd", policy="tight")], 2),
            ("none is chosen", [], 0),
        ]
    ),
)
def test_the_exit_code(run: Run, with_objects: Snapshot, pods: list[Any], code: int) -> None:
    file = with_objects(WARNED, running("other", policy=None, namespace="default"), *pods)

    assert run("check", "-A", "--snapshot", file).exit_code == code


def test_what_cannot_be_read_says_why(run: Run, with_objects: Snapshot) -> None:
    result = run("check", "-A", "--snapshot", with_objects(running("odd", policy="tight")), COLUMNS="200")

    assert (
        '      unreadable: metadata.annotations[numalign.io/policy]: "tight" is not a known value'
        in result.stdout
    )


def test_who_is_left_alone_is_no_offender(run: Run, with_objects: Snapshot) -> None:
    file = with_objects(running("away", 0, 1, namespace="closed"))

    assert run("check", "-A", "--snapshot", file).stdout == "1 pod in 1 namespace, no findings\n"
    shown = run("check", "-A", "--all", "--snapshot", file, COLUMNS="200").stdout
    assert "exempt: its namespace is labelled numalign.io/admission: disabled" in shown


def test_pods_are_chosen_by_namespace_and_labels(run: Run, with_objects: Snapshot) -> None:
    file = with_objects(WARNED, *PODS)

    def names(*arguments: str) -> list[str]:
        return [*entries(run("check", "--all", "-o", "json", "--snapshot", file, *arguments))]

    assert names("-n", "strict") == ["loose"]
    assert names("-A", "-l", "app in (bad,lax)") == ["bad", "lax"]
    assert names("-n", "team", "-l", "app!=bad") == ["good", "unseen"]
    # A file has no context, and so no namespace of its own.
    assert names("-l", "app in (bad,lax)") == ["bad", "lax"]
    assert names("-A", "-l", "app=nobody") == []


def test_a_pod_that_ended_or_is_going_is_not_asked_about(run: Run, with_objects: Snapshot) -> None:
    ended = running("ended", 0, 1) | {"status": {"phase": "Failed"}}
    going = running("going", 0, 1)
    going["metadata"]["deletionTimestamp"] = "2026-11-20T00:00:00Z"
    waiting = running("waiting", cpu="40")
    del waiting["spec"]["nodeName"]

    result = run("check", "-A", "--snapshot", with_objects(ended, going, waiting))

    assert (result.exit_code, result.stdout) == (0, "no matching pod is running\n")


def test_where_a_scheduler_put_a_pod_does_not_count(run: Run, with_objects: Snapshot) -> None:
    # Its node is gone, and there is none left that could take a pod like it.
    gone = running("gone", cpu="40")
    gone["spec"]["nodeName"] = "larger"

    assert "would be denied now: no node can" in run("check", "-A", "--snapshot", with_objects(gone)).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    table(
        [
            ("nothing is chosen", [], "nothing to check: use -f for manifests, or -A, -n or -l"),
            (
                "manifests and pods",
                ["-f", "x.yaml", "-A", "--all"],
                "-f checks manifests, but -A, -l and --all select",
            ),
            ("a selector is broken", ["-A", "-l", "app in web"], 'expected "(" instead of "web"'),
        ]
    ),
)
def test_what_is_asked_wrongly_is_told(
    run: Run, with_objects: Snapshot, arguments: list[str], said: str
) -> None:
    result = run("check", *arguments, "--snapshot", with_objects(*PODS), COLUMNS="200")

    assert result.exit_code == 2
    assert said in result.output


def test_a_file_without_pods_is_no_clean_bill(run: Run, with_objects: Snapshot) -> None:
    result = run("check", "-A", "--snapshot", with_objects())

    assert result.exit_code == 2
    assert (
        "the snapshot contains no pods on nodes: write it with `kubectl numa snapshot --with-pods`"
        in result.stderr
    )


def test_names_that_would_steer_a_terminal_do_not(run: Run, with_objects: Snapshot) -> None:
    odd = running("bad", 0, 1)
    odd["metadata"]["name"] = "bad\x1b[31m"

    assert "\x1b" not in run("check", "-A", "--snapshot", with_objects(odd)).output
