"""Quotas of exclusive CPUs: what of them is in use, and how that is told of a pod that waits for one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from numalign.runtime.clock import utc_now
from tests.unit.kubectl_numa.objects import ITEMS, known, manifest

Run = Callable[..., Result]

ONLY_N = "--quota lists namespaces: use it only with -n or -A"


def pod(name: str, cpu: str, *, node: str = "", namespace: str = "team") -> dict[str, Any]:
    made = manifest(name, cpu, namespace=namespace)
    made["metadata"]["uid"] = f"uid-of-{namespace}-{name}"
    made["spec"]["nodeName"] = node
    return made | {"status": {"phase": "Running" if node else "Pending"}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The small cluster, with a namespace that uses 8 of 10 CPUs and one that uses none of 4."""
    team = known("Namespace", "team", metadata={"labels": {"numalign.io/exclusive-cpus": "10"}})
    calm = known("Namespace", "calm", metadata={"labels": {"numalign.io/exclusive-cpus": "4"}})
    pods = (
        pod("old", "8", node="big"),
        pod("new", "4"),
        pod("elsewhere", "8", node="big", namespace="default"),
    )
    path = tmp_path / "quota.json"
    path.write_text(json.dumps({"kind": "List", "items": [*ITEMS, team, calm, *pods]}))
    return path


def test_each_namespace_with_a_quota_says_what_it_uses(run: Run, file: Path) -> None:
    result = run("pods", "--quota", "--snapshot", file, COLUMNS="200")

    assert result.exit_code == 0, result.output
    assert result.stdout == (
        "calm  0 of 4 exclusive CPUs in use\n"
        "team  8 of 10 exclusive CPUs in use, 4 more requested by pods without a node\n"
        "2 namespaces with a limit of exclusive CPUs\n"
    )


def test_programs_read_the_same_quotas(run: Run, file: Path) -> None:
    of_team = run("pods", "--quota", "-n", "team", "--snapshot", file, "-o", "json").stdout

    assert json.loads(of_team) == [{"namespace": "team", "used": 8, "pending": 4, "limit": 10}]


def test_what_is_reserved_for_a_pinned_pod_is_in_use_and_requested_by_none(run: Run, file: Path) -> None:
    content, now = json.loads(file.read_text()), utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
    (team,) = (item for item in content["items"] if item["metadata"]["name"] == "team")
    team["metadata"]["labels"]["numalign.io/gate"] = "enabled"
    pinned = pod("pinned", "1")
    pinned["metadata"] |= {"creationTimestamp": now, "annotations": {"numalign.io/pinned-at": now}}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["big"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pinned["spec"]["affinity"] = {"nodeAffinity": required}
    content["items"].append(pinned)
    file.write_text(json.dumps(content))
    (quota,) = json.loads(run("pods", "--quota", "-n", "team", "--snapshot", file, "-o", "json").stdout)

    assert (quota["used"], quota["pending"]) == (9, 4)


def test_the_policy_file_may_limit_more_and_further_namespaces(run: Run, file: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("defaults: [{exclusiveCPUs: 6}]")
    listed = run("pods", "--quota", "-A", "--policy", policy, "--snapshot", file, "-o", "json").stdout

    assert {each["namespace"]: (each["used"], each["limit"]) for each in json.loads(listed)} == {
        "calm": (0, 4),
        "closed": (0, 6),
        "default": (8, 6),
        "eager": (0, 6),
        "strict": (0, 6),
        "team": (8, 6),
    }


def test_without_a_quota_that_is_said(run: Run, cluster_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "none.json"
    path.write_text(json.dumps({"kind": "List", "items": [*ITEMS, pod("old", "8", node="big")]}))

    assert run("pods", "--quota", "--snapshot", path).stdout == "no namespace has a limit of exclusive CPUs\n"
    assert "contains no pods on nodes" in run("pods", "--quota", "--snapshot", cluster_file).stderr


@pytest.mark.parametrize("more", ["--misaligned", "--rejected", "--all", "--selector=a=b"])
def test_a_quota_is_of_a_namespace_and_of_no_pods(run: Run, file: Path, more: str) -> None:
    result = run("pods", "--quota", more, "--snapshot", file)

    assert (result.exit_code, ONLY_N in result.stderr) == (2, True)


WAITS = "8 of 10 exclusive CPUs of namespace team are in use, and the pod requests 4"


def test_a_pod_that_waits_for_its_quota_is_explained(run: Run, file: Path) -> None:
    told = run("explain", "new", "-n", "team", "--snapshot", file, COLUMNS="200").stdout
    (new,) = json.loads(run("explain", "new", "-n", "team", "--snapshot", file, "-o", "json").stdout)
    (old,) = json.loads(run("explain", "old", "-n", "team", "--snapshot", file, "-o", "json").stdout)

    assert f"  waits for the quota of its namespace: {WAITS}\n" in told
    assert new["quota"] == {"used": 8, "requested": 4, "limit": 10, "waits": True}
    assert old["quota"] is None


def test_a_pod_that_fits_where_no_cpus_are_pinned_waits_for_no_quota(run: Run, file: Path) -> None:
    """One node after the other lists no CPUs any more; the last one is that of the other pod."""
    content, told = json.loads(file.read_text()), []
    by_name = {item["metadata"]["name"]: item for item in content["items"] if "zones" in item}
    for name in ("small", "big"):
        for zone in by_name[name]["zones"]:
            zone["resources"] = [each for each in zone["resources"] if each["name"] != "cpu"]
        file.write_text(json.dumps(content))
        (new,) = json.loads(run("explain", "new", "-n", "team", "--snapshot", file, "-o", "json").stdout)
        told.append((new["quota"]["used"], new["quota"]["waits"]))

    assert told == [(8, False), (0, False)]


def test_a_pod_that_waits_for_its_quota_is_pending_for_that(run: Run, file: Path) -> None:
    (cause,) = json.loads(run("pending", "--snapshot", file, "-o", "json").stdout)

    assert (cause["verdict"], cause["reason"]) == ("quota", WAITS)


def test_pods_of_another_namespace_that_ask_for_the_same_wait_for_no_quota(run: Run, file: Path) -> None:
    content = json.loads(file.read_text())
    content["items"].append(pod("free", "4", namespace="default"))
    file.write_text(json.dumps(content))
    causes = json.loads(run("pending", "--snapshot", file, "-o", "json").stdout)

    assert {cause["oldest"]["name"]: cause["verdict"] for cause in causes} == {"new": "quota", "free": "fits"}
