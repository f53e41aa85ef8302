"""A namespace with a quota of exclusive CPUs, two replicas of the webhook, and the real scheduler."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest

from certs import authority
from numalign.kube.client import Patch
from numalign.model.intent import EXCLUSIVE_CPUS
from tests.system.e2e.programs import Webhook, base64
from tests.system.e2e.sites import PODS, Site, pod
from tests.system.eventually import eventually
from tools.clusters import shipped
from tools.clusters.api_requests import ask, patch
from tools.clusters.processes import Children
from tools.clusters.sim.fingerprints import Fingerprint
from tools.clusters.sim.shapes import SimNode

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(240)]

LIMIT, ASKED = 20, 50
NODES = [SimNode(f"quota-{at}", "two-by-four") for at in range(8)]
"""Each has room for the whole quota, so the scheduler itself refuses none of them."""

ENTRY = "pods-by-exclusive-cpus.validate.numalign.io"
REPLICAS = ("even", "odd")
"""An API server would ask one of them over one connection, so each is asked about half of the names."""


async def label(site: Site, value: str | None) -> None:
    body = {"metadata": {"labels": {EXCLUSIVE_CPUS: value}}}
    answer = await patch(site.api, "/api/v1/namespaces/default", body, how=Patch.MERGE)
    assert answer.code == HTTPStatus.OK, answer.body


@asynccontextmanager
async def denying(site: Site, children: Children, pair: authority.Files, folder: Path) -> AsyncIterator[None]:
    """Two replicas deny what is beyond the quota during the block: the shipped entry, once for each."""
    policy = folder / "policy.yaml"
    policy.write_text("overQuota: deny")
    flags = (f"--kubeconfig={site.plane.kubeconfig('admin', folder)}", f"--policy={policy}")
    webhooks = [Webhook(children, pair, *flags, name=f"webhook-{each}") for each in REPLICAS]
    [shown] = [
        each for document in shipped.webhooks() for each in document["webhooks"] if each["name"] == ENTRY
    ]
    entries = []
    for parity, each in zip(REPLICAS, webhooks, strict=True):
        await each.start()
        equal = "==" if parity == "even" else "!="
        mine = {"name": parity, "expression": f"int(object.metadata.name.split('-')[1]) % 2 {equal} 0"}
        entries.append(
            {
                **shown,
                "name": f"{parity}.{ENTRY}",
                "clientConfig": {**shipped.at(shown, each.port), "caBundle": base64(site.plane.ca)},
                **shipped.PATIENT,
                "matchConditions": [*shown["matchConditions"], mine],
            }
        )
    kind = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "quota"},
    }
    await site.store.apply({**kind, "webhooks": entries})
    try:
        for number in range(len(REPLICAS)):
            await eventually(partial(denies, site, number), bool, "replicas denied")
        yield
    finally:
        await site.store.delete(kind)
        await asyncio.gather(*(each.child.end() for each in webhooks))


async def denies(site: Site, number: int) -> bool:
    """Whether a pod that is larger than the quota is denied."""
    answer = await ask(site.api, "POST", PODS, pod(f"tried-{number}", cpu=LIMIT + 1), dryRun="All")
    return answer.code == HTTPStatus.FORBIDDEN


async def create(site: Site, name: str) -> bool:
    answer = await ask(site.api, "POST", PODS, pod(name, cpu=1))
    assert answer.code in {HTTPStatus.CREATED, HTTPStatus.FORBIDDEN}, answer.body
    return answer.code == HTTPStatus.CREATED


async def test_fifty_pods_at_once_run_within_the_quota(
    site: Site, children: Children, pair: authority.Files, tmp_path: Path
) -> None:
    names = [f"one-{at}" for at in range(ASKED)]
    await label(site, str(LIMIT))
    async with site.nodes(*NODES, fingerprint=Fingerprint.ALL):
        async with denying(site, children, pair, tmp_path):
            admitted = await asyncio.gather(*(create(site, name) for name in names))
        # The others come, too, when no webhook is asked.
        denied = [name for name, created in zip(names, admitted, strict=True) if not created]
        assert all(await asyncio.gather(*(create(site, name) for name in denied)))

        running = await eventually(site.running, lambda seen: len(seen) >= LIMIT, "a quota ran")
        waiting = next(name for name in reversed(names) if name not in running)
        await site.until_event(
            waiting,
            "FailedScheduling",
            f"0/{len(NODES)} nodes are available: {len(NODES)} node(s) beyond the quota: {LIMIT} of {LIMIT}"
            " exclusive CPUs of namespace default are in use, and the pod requests 1 (numalign).",
        )
        assert LIMIT <= sum(admitted) <= len(REPLICAS) * LIMIT
        assert len(running) == LIMIT
        assert await site.running() == running

        for name in names:
            if name not in running and name != waiting:
                await site.delete(name)
        await site.delete(min(running))
        await site.until_run(waiting)
    await label(site, None)
