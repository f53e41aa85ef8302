"""What the controllers asked of the API server in all of these tests they may, and all of it was granted."""

import pytest

from tests.system.workloads.installed import Numalign
from tests.worlds import rights
from tools.clusters import shipped

pytestmark = [pytest.mark.last, pytest.mark.asyncio(loop_scope="session")]

TO_PODS = {("patch", "pods"), ("delete", "pods"), ("create", "pods/eviction")}


async def test_controllers_write_only_what_is_documented_and_granted(ours: Numalign) -> None:
    stage, plane = ours.stage, ours.stage.cluster.plane
    uses = stage.uses(shipped.CONTROLLERS)
    rows = [row for row in rights.rows() if row.program == "controller"]
    listed = {(right.verb, right.resource) for row in rows for right in row.rights}
    written = {(use.verb, use.resource) for use in uses if use.writes}

    assert written <= listed
    assert {each for each in written if each[1].startswith("pods")} == TO_PODS
    refused = [use for use in uses if use.code in {401, 403} and not plane.starting(use.at)]
    # Nobody may tell anything where all is being deleted.
    left = stage.left
    assert [use for use in refused if use.namespace not in left or use.at < left[use.namespace]] == []
    assert [use for use in stage.uses(shipped.ACCOUNT) if use.writes] == []
