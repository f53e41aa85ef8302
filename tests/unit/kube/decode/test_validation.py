"""What the API server would refuse in a manifest, as it does in pkg/apis/core/validation."""

from typing import Any

import pytest

from numalign.kube.decode import validation
from tests.worlds.notation import GPU, table

HUGE = "hugepages-2Mi"
ONCE = "extended resources cannot be overcommitted"
HUGE_ONCE = "huge pages cannot be overcommitted"
NO_NAME = "is not a resource name to the API server"
BASE = {"cpu": "1", "memory": "1Gi"}


def pod(requests: object, limits: object, *, key: str = "containers") -> dict[str, Any]:
    return {"spec": {key: [{"name": "a", "resources": {"requests": requests, "limits": limits}}]}}


ACCEPTED = [
    # what it shows                   requests                          limits
    ("nothing",                       None,                             None),
    ("a limit alone",                 None,                             {GPU: 1}),
    ("both alike, written otherwise", {GPU: "1"},                       {GPU: 1.0}),
    ("none of it",                    {GPU: 0},                         {GPU: "0"}),
    ("cpu and memory",                {"cpu": "100m", "memory": "0.5"}, None),
    ("storage",                       {"ephemeral-storage": "1Gi"},     None),
    ("pages",                         BASE,                             {"memory": "1Gi", HUGE: "4Mi"}),
    ("a name in capitals",            None,                             {"example.com/A_b.C-1": 1}),
    ("a resource of Kubernetes",      {"x.kubernetes.io/a": "0.5"},     None),
    ("what rounds up to a whole one", None,                             {GPU: "0.9999"}),
]  # fmt: skip


@pytest.mark.parametrize(("requests", "limits"), table(ACCEPTED))
def test_it_accepts(requests: object, limits: object) -> None:
    assert validation.mistakes(pod(requests, limits)) == ()


REFUSED: list[tuple[str, object, object, list[str]]] = [
    # what it shows, requests, limits, the mistakes
    ("a request alone", {GPU: 1}, BASE, [f"limits[{GPU}]: required: {ONCE}"]),
    ("a lower request", {GPU: 1}, {GPU: 2}, [f"requests[{GPU}]: differs from the limit: {ONCE}"]),
    ("a half", None, {GPU: "0.5"},
     [f"limits[{GPU}]: 0.5 is not a whole number: extended resources have no fractions"]),
    ("requested pages alone", {**BASE, HUGE: "2Mi"}, None, [f"limits.{HUGE}: required: {HUGE_ONCE}"]),
    ("fewer pages", {**BASE, HUGE: "2Mi"}, {HUGE: "4Mi"},
     [f"requests.{HUGE}: differs from the limit: {HUGE_ONCE}"]),
    ("a part of a page", BASE, {HUGE: "3Mi"}, [f"limits.{HUGE}: 3Mi is not a multiple of the page size"]),
    ("pages of no size", BASE, {"hugepages-big": "3Mi"},
     ["limits.hugepages-big: 3Mi is not a multiple of the page size"]),
    ("pages of nothing", BASE, {"hugepages-0": "3Mi"},
     ["limits.hugepages-0: 3Mi is not a multiple of the page size"]),
    ("pages without memory", None, {HUGE: "2Mi"}, ["huge pages require cpu or memory beside them"]),
    ("a name without domain", None, {"CPU": 1}, [f'limits.CPU: {NO_NAME}; did you mean "cpu"?']),
    ("a domain in capitals", None, {"NVIDIA.com/gpu": 1},
     [f'limits[NVIDIA.com/gpu]: {NO_NAME}; did you mean "{GPU}"?']),
    ("the name of a quota", None, {"requests.x.com/pc": 1},
     [f"limits[requests.x.com/pc]: {NO_NAME}; write cpu, memory or a name like {GPU}"]),
    ("two domains", None, {"x.com/y/z": 1},
     [f"limits[x.com/y/z]: {NO_NAME}; write cpu, memory or a name like {GPU}"]),
]  # fmt: skip


@pytest.mark.parametrize("key", ["containers", "initContainers"])
@pytest.mark.parametrize(("requests", "limits", "told"), table(REFUSED))
def test_it_refuses(requests: object, limits: object, told: list[str], key: str) -> None:
    found = validation.mistakes(pod(requests, limits, key=key), {GPU})

    where = f"spec.{key}[0].resources"
    assert [str(mistake).removeprefix(where).lstrip(".: ") for mistake in found] == told
    assert all(mistake.where.startswith(where) for mistake in found)


def test_what_cannot_be_read_is_left_to_the_reader_of_pods() -> None:
    for resources in (None, 7, {"limits": 7}, {"limits": {GPU: "many"}}):
        validation.mistakes({"spec": {"containers": [{"resources": resources}, 7]}})
    assert validation.mistakes(pod(None, {GPU: "many", HUGE: "x", "cpu": 1})) == ()
    assert validation.mistakes({"spec": {"containers": [{}] * 1000}}) == ()
