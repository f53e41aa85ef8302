"""Namespaces in which numalign denies workloads, beside those in which it warns.

One webhook process more, with `workloads: deny` by the chart, and a configuration that sends it the workloads
of namespaces with a label: so a test can switch the setting for its own namespace.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path

from tests.system.eventually import eventually
from tests.system.workloads import workloads
from tests.system.workloads.installed import Numalign, command
from tests.system.workloads.stages import Stage
from tools.clusters import shipped
from tools.clusters.api_objects import namespace
from tools.clusters.api_requests import Json, ask
from tools.clusters.replicas import replicas
from tools.generate.manifests import made

LABEL = {"denies": "workloads"}
ENTRY = "workloads.validate.numalign.io"
IMPOSSIBLE = 1000
"""CPUs that no node has in any zone."""


@dataclass(frozen=True, slots=True)
class Denying:
    stage: Stage

    async def begin(self, home: str) -> None:
        await self.stage.store.apply(namespace(home, LABEL))
        wish = workloads.template("rehearsal", on={}, cpus=IMPOSSIBLE, restart="Never")
        path = f"/apis/batch/v1/namespaces/{home}/jobs"
        job = workloads.job(home, "rehearsal", 1, wish, backoff=0)
        await eventually(
            partial(ask, self.stage.api, "POST", path, job, dryRun="All"),
            lambda answer: answer.code == HTTPStatus.FORBIDDEN,
            f"an impossible Job was denied in {home}",
        )


@asynccontextmanager
async def denying(ours: Numalign, helm: Path, values: str) -> AsyncIterator[Denying]:
    stage = ours.stage
    installation = await made(helm, f"{values} workloads=deny")
    folder = stage.cluster.plane.folder / "denying"
    folder.mkdir()
    kubeconfig = stage.cluster.plane.kubeconfig(shipped.ACCOUNT, folder)
    denies = command(installation, shipped.NAME, kubeconfig)
    async with replicas(stage.cluster.children, command=denies, name="denying") as webhooks:
        await webhooks.start()
        await stage.store.apply(await _configuration(ours, webhooks.service.port))
        yield Denying(stage)


async def _configuration(ours: Numalign, port: int) -> Json:
    """The entry for workloads as it is installed now, for namespaces with the label."""
    kind = "ValidatingWebhookConfiguration"
    installed = await ours.stage.read(ours.installation[kind, shipped.CONFIGURATION])
    [entry] = [each for each in installed["webhooks"] if each["name"] == ENTRY]
    entry["clientConfig"]["url"] = entry["clientConfig"]["url"].replace(
        str(ours.webhooks.service.port), str(port)
    )
    return {
        "apiVersion": installed["apiVersion"],
        "kind": kind,
        "metadata": {"name": f"{shipped.CONFIGURATION}-denying"},
        "webhooks": [{**entry, "namespaceSelector": {"matchLabels": LABEL}}],
    }
