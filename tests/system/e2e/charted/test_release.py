"""A release on a real API server, by helm itself: the packaged chart is installed, tested and uninstalled.

What no API server has is played: a kubelet, which runs the pod of `helm test`, and the network that leads to
a Service.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest
import pytest_asyncio

from numalign.kube.client import Patch
from tests.system.e2e.clusters import IMPATIENT, command
from tests.system.e2e.installed.test_uninstalling import traces
from tests.system.e2e.programs import OwnPlane, kubeconfig
from tests.system.eventually import eventually
from tests.worlds.opt_in import PACKAGING
from tools.clusters import agents, builds, shipped
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import Answer, ask, patch
from tools.clusters.controlplane.planes import Plane
from tools.clusters.processes import Children, program, run
from tools.clusters.replicas import ONLY_METRICS, Replicas, replicas

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

CHART = str(shipped.DEPLOY / "chart")
NAME = "numalign-test"
TESTER = f"system:serviceaccount:{shipped.NAMESPACE}:{NAME}"
USERS = {"admin": "system:masters", **dict.fromkeys((TESTER, *shipped.ACCOUNTS.values()), shipped.GROUPS)}
PODS = "/api/v1/namespaces/default/pods"
TEST_POD = f"/api/v1/namespaces/{shipped.NAMESPACE}/pods/{NAME}"
LASTING = {"metadata": {"name": "lasting"}, "spec": {"containers": [{"name": "main", "image": "main"}]}}

# Made by the programs, not by helm: docs/how-to/uninstall.md names them.
STAY = {
    "namespaces/numalign-system",
    "secrets/numalign-webhook-tls",
    "configmaps/numalign-shapes",
    "leases/numalign-controller",
}


@dataclass(slots=True)
class PodRun:
    """The pod of `helm test`: exit code, log, and the answers to requests that its account may not make."""

    code: int | None = None
    log: str = ""
    forbidden: list[Answer] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Release:
    """An API server with the release, and what helm is asked there."""

    plane: Plane
    store: Store
    helm: Path
    programs: Replicas

    async def try_helm(self, *words: str) -> tuple[int, str]:
        """What helm does as the administrator."""
        flags = (f"--kubeconfig={kubeconfig(self.plane, 'admin')}", f"--namespace={shipped.NAMESPACE}")
        return await run(str(self.helm), *words, *flags)

    async def helm_output(self, *words: str) -> str:
        code, output = await self.try_helm(*words)
        assert code == 0, output
        return output

    async def traces(self) -> set[str]:
        """All that has our name on it, or in it; events and the records of helm aside."""
        found = await traces(self.store)
        return {each for each in found if not each.startswith("events/") and "sh.helm.release" not in each}

    @asynccontextmanager
    async def kubelet(self) -> AsyncIterator[PodRun]:
        pod = PodRun()
        work = asyncio.create_task(self._run_pod(pod))
        yield pod
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    async def _run_pod(self, pod: PodRun) -> None:
        look = partial(ask, self.store.api, "GET", TEST_POD)
        found = await eventually(look, lambda answer: answer.code == HTTPStatus.OK, "the pod was there")
        [container] = found.body["spec"]["containers"]
        executable = program(Path(container["command"][0]).name)
        pod.code, pod.log = await run(
            executable, *container["args"], KUBECONFIG=str(kubeconfig(self.plane, TESTER))
        )
        async with self.plane.client(TESTER) as tester:

            async def created() -> Answer:
                answer = await ask(tester, "POST", PODS, LASTING)
                if answer.code == HTTPStatus.CREATED:
                    await ask(self.store.api, "DELETE", f"{PODS}/lasting", gracePeriodSeconds="0")
                return answer

            # Not as a dry run, once the API server knows the policy; not there; and not to look.
            pod.forbidden += [
                await eventually(created, lambda seen: seen.code != HTTPStatus.CREATED, "the policy held"),
                await ask(tester, "POST", PODS.replace("default", "kube-system"), LASTING, dryRun="All"),
                await ask(tester, "GET", PODS),
                await ask(tester, "GET", "/api/v1/namespaces/default/secrets"),
            ]
        status = {"status": {"phase": "Failed" if pod.code else "Succeeded"}}
        await patch(self.store.api, f"{TEST_POD}/status", status, how=Patch.MERGE)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def release(own_plane: OwnPlane, children: Children) -> AsyncIterator[Release]:
    """The packaged chart, installed; a webhook and a controller run beside it."""
    with PACKAGING.or_skipped():
        helm = await builds.helm()
    async with own_plane("charted", users=USERS) as plane, plane.client("admin") as client:
        webhook, writer = [kubeconfig(plane, account) for account in shipped.ACCOUNTS.values()]
        writes = command(writer, shipped.CONTROLLER)
        async with (
            replicas(children, command=command(webhook, **IMPATIENT)) as service,
            replicas(children, command=writes, name="controller", ports=ONLY_METRICS) as writers,
        ):
            there = Release(plane, Store(client), helm, service)
            await agents.define(there.store)
            await there.helm_output("package", CHART, f"--destination={plane.folder}")
            [package] = plane.folder.glob("numalign-*.tgz")
            await there.helm_output(
                *("install", "numalign", str(package), "--create-namespace"),
                "--set=priorityAndFairness.enabled=true",
                *shipped.post_renderer(service.service.port),
            )
            await writers.start()
            await service.start()
            yield there


async def test_helm_test_fails_until_api_servers_call_the_webhook(release: Release) -> None:
    """Without its configurations admission is off. An upgrade creates them again (docs/runbooks.md)."""
    before = await release.traces()
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}/{shipped.CONFIGURATION}"
        answer = await ask(release.store.api, "DELETE", path)
        assert answer.code == HTTPStatus.OK, answer.body
    async with release.kubelet() as failed:
        code, output = await release.try_helm("test", "numalign", "--timeout=120s")
    assert (code != 0, "Phase:          Failed" in output, failed.code) == (True, True, 1), output
    log = " ".join(failed.log.split())
    assert "FAIL a pod with numalign.io/policy: no-such-policy is admitted, not denied" in log
    assert "does not send these pods to the webhook" in log
    assert "numalign does not review the pods of namespace default" in log

    flags = shipped.post_renderer(release.programs.service.port)
    await release.helm_output("upgrade", "numalign", CHART, "--reset-then-reuse-values", *flags)
    async with release.kubelet() as passed:
        output = await release.helm_output("test", "numalign", "--timeout=120s")
    assert "Phase:          Succeeded" in output
    assert passed.code == 0
    assert "numalign reviews the pods of namespace default" in passed.log
    assert [answer.code for answer in passed.forbidden] == [HTTPStatus.FORBIDDEN] * 4
    assert "as a dry run only" in passed.forbidden[0].body["message"]
    # It leaves nothing of its own.
    after = await release.traces()
    assert after <= before | STAY
    assert not [each for each in after if each.endswith(f"/{NAME}")]


async def test_programs_have_their_own_flow_schema(release: Release) -> None:
    path = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/numalign"
    flow = (await ask(release.store.api, "GET", path)).body["metadata"]["uid"]

    async def classified() -> list[bool]:
        found = []
        for user in (*shipped.ACCOUNTS.values(), "admin"):
            async with release.plane.client(user) as client:
                answer = await client.call_api(
                    "/api/v1/nodes", "GET", auth_settings=["BearerToken"], _preload_content=False
                )
                found.append(str(answer.headers["X-Kubernetes-PF-FlowSchema-UID"]) == flow)
        return found

    await eventually(classified, lambda seen: seen == [True, True, False], "the FlowSchema held")


async def test_helm_uninstall_leaves_only_runtime_objects(release: Release) -> None:
    definition = "customresourcedefinitions/noderesourcetopologies.topology.node.k8s.io"
    assert "deployments/numalign-webhook" in await release.traces()
    await release.programs.end()
    await release.helm_output("uninstall", "numalign")
    await eventually(release.traces, lambda left: left <= STAY, "all was gone")
    code = (await ask(release.store.api, "GET", "/apis/apiextensions.k8s.io/v1/" + definition)).code
    assert code == HTTPStatus.OK
