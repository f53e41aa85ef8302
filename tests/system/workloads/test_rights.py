"""What the controllers asked of the API server in all of these tests they may, and all of it was granted."""

import pytest

from tests.system.workloads.installed import Numalign
from tests.worlds import rights
from tools.clusters import shipped
from tools.clusters.controlplane.audits import Use

pytestmark = [pytest.mark.last, pytest.mark.asyncio(loop_scope="session")]

TO_PODS = {("patch", "pods"), ("delete", "pods"), ("create", "pods/eviction")}


async def test_controllers_write_only_documented_pod_changes(ours: Numalign) -> None:
    listed = {
        (right.verb, right.resource)
        for row in rights.rows()
        if row.program == "controller"
        for right in row.rights
    }
    written = {(use.verb, use.resource) for use in uses(ours) if use.writes}

    assert written <= listed
    assert {each for each in written if each[1].startswith("pods")} == TO_PODS


async def test_the_controllers_were_refused_nothing(ours: Numalign) -> None:
    plane, left = ours.stage.cluster.plane, ours.stage.left
    refused = [use for use in uses(ours) if use.code in {401, 403} and not plane.starting(use.at)]
    # Nobody may tell anything where all is being deleted.
    assert [use for use in refused if use.namespace not in left or use.at < left[use.namespace]] == []


async def test_the_webhooks_wrote_nothing(ours: Numalign) -> None:
    assert [use for use in ours.stage.uses(shipped.ACCOUNT) if use.writes] == []


def uses(ours: Numalign) -> list[Use]:
    return ours.stage.uses(shipped.CONTROLLERS)
