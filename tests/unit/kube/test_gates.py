"""Pods behind the placement gate are listed, and the gate is lifted."""

import asyncio
from datetime import UTC, datetime
from http import HTTPStatus

import pytest

from numalign.kube import gates
from numalign.kube.errors import InvalidObject, NotFound, Unreachable
from numalign.kube.gates import LEASE, WaitingPod, answered_within
from numalign.model.intent import PLACEMENT_GATE
from tests.worlds.objects import Json as Raw
from tools.clusters.fake_api import FakeApi

WEB = "/api/v1/namespaces/team/pods/web"


def pod(name: str, *names: str, phase: str = "Pending", namespace: str = "team") -> Raw:
    listed = [{"name": gate} for gate in names]
    metadata = {"name": name, "namespace": namespace, "labels": {"app": "web"}}
    spec = {"schedulingGates": listed, "priority": 3}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": phase}}


async def names(api: FakeApi, namespace: str | None = None) -> list[str]:
    async with api.client() as client:
        return sorted(each.name for each in await gates.waiting(client, namespace=namespace))


@pytest.mark.parametrize("expire", [False, True])
async def test_all_pages_are_read(api: FakeApi, monkeypatch: pytest.MonkeyPatch, *, expire: bool) -> None:
    monkeypatch.setattr(gates, "PAGE", 2)
    api.failures |= {("NEXT", "/api/v1/pods"): HTTPStatus.GONE} if expire else {}
    for number in range(7):
        api.put(pod(f"p{number}", PLACEMENT_GATE))
    api.put(pod("other", "example.com/quota"))
    api.put(pod("far", PLACEMENT_GATE, namespace="far"))
    assert await names(api) == ["far", *(f"p{number}" for number in range(7))]
    assert await names(api, "far") == ["far"]


async def test_only_the_placement_gate_is_lifted(api: FakeApi) -> None:
    stored = api.put(pod("web", "one", PLACEMENT_GATE, "two"))
    uid = stored["metadata"]["uid"]
    async with api.client() as client:
        [waits] = await gates.waiting(client, namespace="team")
        assert waits == WaitingPod("team", "web", uid, ("one", "two"))
        for _ in range(2):
            await gates.lift(client, namespace="team", name="web", uid=uid)
    lifted = api.get(WEB)
    assert lifted
    assert [gate["name"] for gate in lifted["spec"]["schedulingGates"]] == ["one", "two"]
    assert (lifted["spec"]["priority"], lifted["metadata"]["labels"]) == (3, {"app": "web"})


async def test_a_recreated_pod_is_not_changed(api: FakeApi) -> None:
    api.put(pod("web", PLACEMENT_GATE))
    async with api.client() as client:
        with pytest.raises(InvalidObject):
            await gates.lift(client, namespace="team", name="web", uid="of-another")
        with pytest.raises(NotFound):
            await gates.lift(client, namespace="team", name="gone", uid="of-another")
    untouched = api.get(WEB)
    assert untouched
    assert untouched["spec"]["schedulingGates"]


AT_ONE = datetime(2026, 11, 23, 1, tzinfo=UTC)

TIMES = [
    ({"holderIdentity": "a", "renewTime": "2026-11-23T01:00:00.000000Z"}, AT_ONE),
    ({"holderIdentity": "", "renewTime": "2026-11-23T01:00:00.000000Z"}, None),
    ({"holderIdentity": "a", "renewTime": "2026-11-23T01:00:00"}, None),
    ({"holderIdentity": "a", "renewTime": 7}, None),
    ({}, None),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "at"), TIMES)
async def test_the_last_renewal_of_the_lease(api: FakeApi, spec: Raw, at: datetime | None) -> None:
    metadata = {"name": LEASE, "namespace": "here"}
    api.put({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})
    async with api.client() as client:
        assert await gates.renewed(client, namespace="here") == at
        assert await gates.renewed(client, namespace="elsewhere") is None


async def test_a_silent_server_is_given_up() -> None:
    with pytest.raises(Unreachable, match=r"did not answer within 0.01 s: a pod"):
        async with answered_within(0.01, what="a pod"):
            await asyncio.sleep(10)
