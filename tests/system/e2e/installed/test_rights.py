"""The roles that are shipped are exactly what each program needs: it was refused nothing, and used them all.

Read from the API server's audit log, after all that the other tests made the programs do.
"""

import pytest

from tests.system.e2e.clusters import Cluster
from tests.system.e2e.guarded import Right, exercises, granted_uses, of_served_groups, rights_of
from tools.clusters import shipped

pytestmark = pytest.mark.last


def granted(name: str) -> set[Right]:
    return rights_of(name, shipped.objects())


@pytest.mark.parametrize("name", shipped.ACCOUNTS)
@pytest.mark.asyncio(loop_scope="session")
async def test_programs_use_all_their_rights_and_no_other(cluster: Cluster, name: str) -> None:
    uses = granted_uses(cluster.plane, shipped.ACCOUNTS[name], granted(name))
    allowed = await of_served_groups(cluster.api, granted(name))
    assert {right for right in allowed if not any(exercises(use, right) for use in uses)} == set()


@pytest.mark.asyncio(loop_scope="session")
async def test_webhook_writes_nothing_and_reads_only_its_secret(cluster: Cluster) -> None:
    found = granted_uses(cluster.plane, shipped.ACCOUNT, granted(shipped.NAME))
    assert [use for use in found if use.writes] == []
    secrets = {(use.verb, use.namespace, use.name) for use in found if use.resource == "secrets"}
    assert secrets == {("get", shipped.NAMESPACE, shipped.SECRET)}


@pytest.mark.parametrize("name", shipped.ACCOUNTS)
def test_no_role_gives_what_is_dangerous_by_default(name: str) -> None:
    allowed = granted(name)
    assert {right for right in allowed if right[2] == "nodes/proxy" or "*" in right} == set()
    assert {right for right in allowed if right[2] == "secrets" and not right[0]} == set()
