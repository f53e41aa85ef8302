"""The scorer as it is shipped, asked by the real kube-scheduler as it is shipped.

Both come as their service accounts with the roles that are shipped; what they asked for can be read in the
audit log afterwards.
"""

from functools import partial
from http import HTTPStatus

import pytest
import pytest_asyncio

from tests.system.e2e.guarded import Right, exercises, granted_uses, of_served_groups, rights_of
from tests.system.e2e.placing import LEASES, SCORER, STANDBY, Cluster, Replica, Running, replica
from tests.system.e2e.programs import kubeconfig
from tests.system.eventually import eventually
from tools.clusters import shipped
from tools.clusters.api_requests import INTENT, Answer, Json, ask, gpus
from tools.clusters.controlplane import audits
from tools.clusters.processes import Children, free_port
from tools.generate.manifests import MANIFESTS, objects

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

module_fixture = partial(pytest_asyncio.fixture, scope="module", loop_scope="session")

NAME = "numalign-scorer"


@module_fixture()
async def refused(cluster: Cluster, second: Running, scorer: Replica) -> Json:
    """A pod that was bound by the scorer, and that its kubelet then refused."""
    assert scorer.child.running()
    await cluster.create("refused", scheduler=second.name, asks=gpus(1), annotations=INTENT)
    seen = await cluster.until_bound("refused")
    refusal = {"phase": "Failed", "reason": "TopologyAffinityError", "message": "no room"}
    path = "/api/v1/namespaces/default/pods/refused/status"
    answer = await ask(cluster.api, "PUT", path, seen | {"status": seen["status"] | refusal})
    assert answer.code == HTTPStatus.OK, answer.body
    return seen


async def test_standby_replica_is_live_and_not_ready(
    tidy: Cluster, children: Children, scorer: Replica, second: Running
) -> None:
    """The Service must not lead to it: it would refuse to bind. Of its rights it uses those to read."""
    # It comes by a name of its own, with the roles of the first.
    subject = {"kind": "ServiceAccount", "name": STANDBY.rpartition(":")[2], "namespace": shipped.NAMESPACE}
    for each in objects(MANIFESTS / "scorer"):
        if each["kind"].endswith("RoleBinding"):
            metadata = each["metadata"] | {"name": f"{each['metadata']['name']}-standby"}
            await tidy.store.apply(each | {"metadata": metadata, "subjects": [subject]})
    waiting = await replica(
        children, kubeconfig(tidy.plane, STANDBY), port=free_port(), name="numalign-scorer-2"
    )

    # By then it knows the cluster, and lacks nothing else.
    await eventually(
        waiting.readiness,
        lambda seen: "lease" in seen[1] and "snapshot" not in seen[1],
        "it waited for the lease alone",
    )
    await tidy.create("meanwhile", scheduler=second.name, asks=gpus(1), annotations=INTENT)
    await tidy.until_bound("meanwhile")
    assert not await waiting.ready()
    assert await scorer.ready()
    lease = await ask(tidy.api, "GET", LEASES.format(shipped.NAMESPACE, NAME))
    assert lease.body["spec"]["holderIdentity"] in (children.logs / NAME).read_text()
    await waiting.child.end()
    used = audits.uses(tidy.plane.folder, user=STANDBY)
    assert used
    assert [use for use in used if use.writes] == []


async def test_scorer_reports_rejections_with_no_right_too_many(cluster: Cluster, refused: Json) -> None:
    def right(events: Answer) -> bool:
        about = [each for each in events.body["items"] if each["reason"] == "NUMAPredictionWrong"]
        return refused["metadata"]["uid"] in {each["involvedObject"]["uid"] for each in about}

    look = partial(ask, cluster.api, "GET", "/api/v1/namespaces/default/events")
    await eventually(look, right, "an event on the pod reported that the prediction was wrong")
    granted = rights_of(NAME, objects(MANIFESTS / "scorer"))
    allowed = await of_served_groups(cluster.api, granted)
    assert allowed

    async def unused() -> set[Right]:
        found = set(audits.uses(cluster.plane.folder, user=SCORER))
        return {right for right in allowed if not any(exercises(use, right) for use in found)}

    # It takes some seconds until a lease is renewed.
    await eventually(unused, lambda seen: not seen, "every right was used")
    granted_uses(cluster.plane, SCORER, granted)
