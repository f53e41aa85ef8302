"""The map against a real API server, which alone knows whose a token is and what they may see.

A controller serves it with the roles that the chart gives it for that. People are service accounts.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp
import pytest
import pytest_asyncio
from kubernetes_asyncio.client.api_client import ApiClient

from numalign.map.access import LOOK
from tests.system.e2e.guarded import granted_uses, rights_of, until_allowed
from tests.system.e2e.programs import charted_rights, controllers_of, stocked
from tests.system.eventually import eventually
from tools.clusters import fleets, shipped
from tools.clusters.api_objects import Store, namespace
from tools.clusters.api_requests import Json, ask, pod
from tools.clusters.controlplane.planes import Plane
from tools.clusters.processes import Children, free_port

pytestmark = pytest.mark.asyncio(loop_scope="session")

RBAC = "rbac.authorization.k8s.io"
TEAM, OTHER = "team", "secret-space"
ACCOUNTS = f"/api/v1/namespaces/{TEAM}/serviceaccounts"
VIEWER, LISTER = "numalign-map-viewer", "lists-pods"
LISTING = {
    "apiVersion": f"{RBAC}/v1",
    "kind": "ClusterRole",
    "metadata": {"name": LISTER},
    "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
}
"""Kubernetes' own role `view` is put together by a controller that does not run here."""

OF_THE_MAP = {
    *((group, resource, verb) for verb in ("list", "watch") for group, resource in (
        ("", "pods"), ("", "namespaces"), ("resource.k8s.io", "deviceclasses"))),
    ("authentication.k8s.io", "tokenreviews", "create"),
    ("authorization.k8s.io", "subjectaccessreviews", "create"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MapSite:
    """The map of a control plane, and the roles of the controller that serves it."""

    store: Store
    url: str
    roles: Sequence[Json]

    async def viewer(self, name: str, *, pods_of: Sequence[str] = ()) -> str:
        """The token of an account that may see the map, and list the pods of some namespaces."""
        metadata = {"namespace": TEAM, "name": name}
        await self.store.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        await self.store.apply(binding("ClusterRoleBinding", name, VIEWER))
        for home in pods_of:
            await self.store.apply(binding("RoleBinding", name, LISTER, home))
        rights = {(home, "", "pods", "list", "") for home in pods_of}
        looking = ("", LOOK.group, LOOK.resource, LOOK.verb, "")
        await until_allowed(self.store.api, f"system:serviceaccount:{TEAM}:{name}", {looking, *rights})
        return await self.token(name)

    async def token(self, name: str, *audiences: str) -> str:
        request = {"spec": {"audiences": audiences}}
        answer = await ask(self.store.api, "POST", f"{ACCOUNTS}/{name}/token", request)
        assert answer.code == HTTPStatus.CREATED, answer.body
        return str(answer.body["status"]["token"])

    async def see(self, path: str, token: str) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.url}{path}", headers=headers) as answer,
        ):
            return answer.status, await answer.text()


def binding(kind: str, name: str, role: str, namespace: str = "") -> Json:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": {"name": f"{name}-{role}"} | ({"namespace": namespace} if namespace else {}),
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "namespace": TEAM, "name": name}],
    }


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(admin: ApiClient, plane: Plane, children: Children) -> AsyncIterator[MapSite]:
    values = "map.enabled=true tls.source=cert-manager labelNodes=false"
    roles = await charted_rights(values, shipped.CONTROLLER, VIEWER)
    port = free_port()
    flags = "--label-nodes=false", "--map", f"--map-port={port}", "--map-review-seconds=1"
    store = await stocked(admin, (*roles, LISTING, namespace(OTHER, {})))
    node = (fleets.node("mapped", fleets.LARGER), fleets.topology("mapped", fleets.LARGER))
    asked = pod("", asks={"cpu": "1", "memory": "1Gi"})
    pods = [{**asked, "metadata": {"namespace": home, "name": f"pod-of-{home}"}} for home in (TEAM, OTHER)]
    for each in pods:
        each["spec"] = {**asked["spec"], "nodeName": "mapped"}
    async with controllers_of(children, plane, *flags) as controllers:
        for document in (*node, *pods):
            await store.apply(document)
        await controllers.start()
        yield MapSite(store, f"http://127.0.0.1:{port}", roles)
    for document in (*pods, *node):
        await ask(admin, "DELETE", await store.path(document), gracePeriodSeconds="0")


async def test_a_token_of_an_account_signs_in_by_the_form(site: MapSite) -> None:
    token = await site.viewer("former")
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(site.url, cookie_jar=jar) as browser:
        async with browser.get("/") as before:
            assert before.status == HTTPStatus.UNAUTHORIZED
        async with browser.post("/login", data={"token": token, "next": "/nodes/mapped"}) as page:
            assert (page.status, page.url.path) == (HTTPStatus.OK, "/nodes/mapped")
            assert "system:serviceaccount:team:former" in await page.text()
        async with browser.post("/logout", headers={"Origin": site.url}) as page:
            assert page.url.path == "/login"
        async with browser.get("/") as after:
            assert after.status == HTTPStatus.UNAUTHORIZED


async def test_pod_names_are_limited_to_readable_namespaces(site: MapSite) -> None:
    token = await site.viewer("member", pods_of=[TEAM])

    async def known() -> bool:
        return "pod-of-team" in (await site.see("/nodes/mapped", token))[1]

    await eventually(known, bool, "the pods were known")
    for path in ("/", "/nodes/mapped", "/api/nodes/mapped", "/api/fleet", f"/pods/{TEAM}/pod-of-team"):
        status, text = await site.see(path, token)
        assert (status, "pod-of-secret-space" in text, OTHER in text) == (HTTPStatus.OK, False, False), path
    assert (await site.see(f"/pods/{OTHER}/pod-of-secret-space", token))[0] == HTTPStatus.NOT_FOUND


async def test_map_tokens_need_this_audience_and_the_right(site: MapSite) -> None:
    token = await site.viewer("leaver", pods_of=[TEAM])
    status, text = await site.see("/api/fleet", await site.token("leaver", "vault"))
    assert (status, "does not accept the token" in text) == (HTTPStatus.UNAUTHORIZED, True)

    async def status_now() -> int:
        return (await site.see("/api/fleet", token))[0]

    assert await status_now() == HTTPStatus.OK
    await site.store.delete(binding("ClusterRoleBinding", "leaver", VIEWER))
    await eventually(status_now, lambda code: code == HTTPStatus.FORBIDDEN, "it was refused")


async def test_a_token_that_is_taken_back_ends_the_stream(site: MapSite) -> None:
    token = await site.viewer("revoked")
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{site.url}/events", headers=headers, timeout=aiohttp.ClientTimeout(60)) as stream,
    ):
        assert stream.status == HTTPStatus.OK
        await stream.content.readuntil(b"\n\n")
        await ask(site.store.api, "DELETE", f"{ACCOUNTS}/revoked")
        assert (await stream.content.read()).endswith(b"event: login\ndata:\n\n")
    assert (await site.see("/api/fleet", token))[0] == HTTPStatus.UNAUTHORIZED


async def test_map_uses_all_its_rights_and_no_other(site: MapSite, plane: Plane) -> None:
    # What the tests above asked: the site is theirs, and goes with this file.
    uses = granted_uses(plane, shipped.CONTROLLERS, rights_of(shipped.CONTROLLER, site.roles))
    assert OF_THE_MAP - {(use.group, use.resource, use.verb) for use in uses} == set()
