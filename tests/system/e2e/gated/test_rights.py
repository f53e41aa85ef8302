"""The rights that gates bring are just what the controller needs for them.

Read from the API server's audit log, after all that the other tests made it do.
"""

import pytest

from tests.system.e2e.gated.conftest import GatedSite
from tests.system.e2e.granted import granted_uses, rights_of
from tools.clusters import shipped

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.last]

OF_GATES = {
    *(("resource.k8s.io", "deviceclasses", verb) for verb in ("list", "watch")),
    *(("", "pods", verb) for verb in ("get", "patch")),
}


async def test_chart_grants_gates_and_no_removal(site: GatedSite) -> None:
    everywhere = {right[1:4] for right in rights_of(shipped.CONTROLLER, site.roles) if not right[0]}
    usual = {right[1:4] for right in rights_of(shipped.CONTROLLER, shipped.objects()) if not right[0]}
    assert everywhere - usual == OF_GATES


async def test_gates_use_all_their_rights_and_no_other(site: GatedSite) -> None:
    uses = granted_uses(site.plane, shipped.CONTROLLERS, rights_of(shipped.CONTROLLER, site.roles))
    assert OF_GATES - {(use.group, use.resource, use.verb) for use in uses} == set()
