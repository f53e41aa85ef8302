"""The roles that are shipped are exactly what each program needs: it was refused nothing, and used them all.

Read from the API server's audit log, after all that the other tests made the programs do.
"""

import pytest

from tests.system.e2e.clusters import Cluster
from tests.system.e2e.granted import Right, exercises, of_served_groups, rights_of
from tools.clusters import shipped
from tools.clusters.controlplane import audits
from tools.clusters.controlplane.audits import Use

pytestmark = pytest.mark.last


def granted(name: str) -> set[Right]:
    """All that the shipped roles of a program allow."""
    return rights_of(name, shipped.objects())


of_each_program = pytest.mark.parametrize("name", shipped.ACCOUNTS)


def uses(cluster: Cluster, name: str) -> list[Use]:
    """All that a program asked for."""
    found = audits.uses(cluster.plane.folder, user=shipped.ACCOUNTS[name])
    assert found
    return found


@of_each_program
@pytest.mark.asyncio(loop_scope="session")
async def test_the_program_was_never_refused_anything(cluster: Cluster, name: str) -> None:
    refused = [
        use for use in uses(cluster, name) if use.code in {401, 403} and not cluster.plane.starting(use.at)
    ]
    assert refused == []


@of_each_program
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.usefixtures("rotation")
async def test_every_right_that_is_granted_was_used(cluster: Cluster, name: str) -> None:
    found, allowed = set(uses(cluster, name)), await of_served_groups(cluster.api, granted(name))
    assert allowed
    assert {right for right in allowed if not any(exercises(use, right) for use in found)} == set()


@of_each_program
@pytest.mark.asyncio(loop_scope="session")
async def test_shipped_roles_allow_every_request(cluster: Cluster, name: str) -> None:
    allowed, asked = granted(name), {use for use in uses(cluster, name) if use.resource}
    assert {use for use in asked if not any(exercises(use, right) for right in allowed)} == set()


@pytest.mark.asyncio(loop_scope="session")
async def test_webhook_writes_nothing_and_reads_only_its_secret(cluster: Cluster) -> None:
    found = uses(cluster, shipped.NAME)
    assert [use for use in found if use.writes] == []
    secrets = {(use.verb, use.namespace, use.name) for use in found if use.resource == "secrets"}
    assert secrets == {("get", shipped.NAMESPACE, shipped.SECRET)}


@pytest.mark.parametrize("name", shipped.ACCOUNTS)
def test_no_role_gives_what_is_dangerous_by_default(name: str) -> None:
    """The node proxy leads into every kubelet; a wildcard leads everywhere."""
    allowed = granted(name)

    assert {right for right in allowed if right[2] == "nodes/proxy" or "*" in right} == set()
    assert {right for right in allowed if right[2] == "secrets" and not right[0]} == set()
