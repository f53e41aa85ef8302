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


@pytest.mark.parametrize(("requests", "limits"), table([
    # what it shows                   requests                          limits
    ("nothing",                       None,                             None),
    ("a limit alone",                 None,                             {GPU: 1}),
    ("both alike, written otherwise", {GPU: "1"},                       {GPU: 1.0}),
    ("pages",                         BASE,                             {"memory": "1Gi", HUGE: "4Mi"}),
    ("a name in capitals",            None,                             {"example.com/A_b.C-1": 1}),
    ("a resource of Kubernetes",      {"x.kubernetes.io/a": "0.5"},     None),
    ("what rounds up to a whole one", None,                             {GPU: "0.9999"}),
]))  # fmt: skip
def test_resources_are_accepted(requests: object, limits: object) -> None:
    assert validation.mistakes(pod(requests, limits)) == ()


@pytest.mark.parametrize("key", ["containers", "initContainers"])
@pytest.mark.parametrize(("requests", "limits", "messages"), table([
    # what it shows, requests, limits, the mistakes
    ("a request alone", {GPU: 1}, BASE, [f"limits[{GPU}]: required: {ONCE}"]),
    ("a lower request", {GPU: 1}, {GPU: 2}, [f"requests[{GPU}]: differs from the limit: {ONCE}"]),
    ("a half", None, {GPU: "0.5"},
     [f"limits[{GPU}]: 0.5 is not a whole number: extended resources have no fractions"]),
    ("requested pages alone", {**BASE, HUGE: "2Mi"}, None, [f"limits.{HUGE}: required: {HUGE_ONCE}"]),
    ("pages of no size", BASE, {"hugepages-big": "3Mi"},
     ["limits.hugepages-big: 3Mi is not a multiple of the page size"]),
    ("pages without memory", None, {HUGE: "2Mi"}, ["huge pages require cpu or memory beside them"]),
    ("a name without domain", None, {"CPU": 1}, [f'limits.CPU: {NO_NAME}; did you mean "cpu"?']),
    ("a domain in capitals", None, {"NVIDIA.com/gpu": 1},
     [f'limits[NVIDIA.com/gpu]: {NO_NAME}; did you mean "{GPU}"?']),
]))  # fmt: skip
def test_resources_are_refused(requests: object, limits: object, messages: list[str], key: str) -> None:
    mistakes = validation.mistakes(pod(requests, limits, key=key), {GPU})
    where = f"spec.{key}[0].resources"
    assert [str(mistake).removeprefix(where).lstrip(".: ") for mistake in mistakes] == messages
    assert all(mistake.where.startswith(where) for mistake in mistakes)


def test_unreadable_resources_are_no_mistakes_of_validation() -> None:
    for resources in (None, 7, {"limits": 7}, {"limits": {GPU: "many"}}):
        validation.mistakes({"spec": {"containers": [{"resources": resources}, 7]}})
    assert validation.mistakes(pod(None, {GPU: "many", HUGE: "x", "cpu": 1})) == ()
    assert validation.mistakes({"spec": {"containers": [{}] * 1000}}) == ()
