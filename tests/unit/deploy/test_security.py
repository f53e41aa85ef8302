"""docs/explanation/security.md has every right that the chart gives, under those values, and no other."""

from collections import Counter
from pathlib import Path

import pytest

from tests.worlds import rights
from tests.worlds.rights import PROGRAMS, Right
from tools.generate.manifests import EVERY_PART, Object, everything, made, of_test

ROWS = rights.rows()

# How each value of the tables is met, and how it is not.
VALUES = {
    **{
        name: (f"{name}=true", f"{name}=false")
        for name in (
            *("labelNodes", "countPods", "kubeletConfigs.enabled", "gates.enabled", "heal.enabled"),
            *("map.enabled", "policyReports.enabled", "ownerEvents.enabled"),
            *("agent.nodeProxy", "agent.annotatePods"),
        )
    },
    "tls.source: own": ("tls.source=own", "tls.source=cert-manager"),
    "scorer.reserveAt: bind": ("scorer.reserveAt=bind", "scorer.reserveAt=prioritize"),
    "agent.kubeletConfig": ("agent.kubeletConfig=/etc/kubelet.yaml", "agent.kubeletConfig="),
    "helm test": ("", ""),
}
BY_DEFAULT = frozenset({"labelNodes", "countPods", "tls.source: own", "scorer.reserveAt: bind"})
# What is given without one of them.
WITHOUT = {'agent.kubeletConfig: ""': "agent.kubeletConfig"}
SETS = [frozenset(each) for each in (VALUES.keys(), *(VALUES.keys() - {each} for each in VALUES), ())]


def given(found: list[Object], program: str) -> tuple[Counter[Right], set[str]]:
    """The rights of a program's account, and the roles of others that it is bound to."""
    roles = {
        (each["kind"], each["metadata"]["name"]): each for each in found if each["kind"].endswith("Role")
    }
    counted, foreign = Counter[Right](), set[str]()
    for binding in (each for each in found if each["kind"].endswith("RoleBinding")):
        if [subject["name"] for subject in binding["subjects"]] != [f"numalign-{program}"]:
            continue
        ref = binding["roleRef"]["kind"], binding["roleRef"]["name"]
        if ref in roles:
            counted.update(rights.of_role(roles[ref]))
        else:
            foreign.add(ref[1])
    return counted, foreign


def documented(program: str, values: frozenset[str]) -> tuple[Counter[Right], set[str]]:
    """What the page says of it."""
    met = values | {row for row, value in WITHOUT.items() if value not in values}
    rows = [row for row in ROWS if row.program == program and row.given_with(met)]
    return Counter(right for row in rows for right in row.rights), {r for row in rows for r in row.roles}


def test_every_right_has_a_reason_and_its_value_is_tested() -> None:
    assert [row for row in ROWS if not (row.reason and row.without and (row.rights or row.roles))] == []
    assert {value for row in ROWS for value in row.values} == VALUES.keys() | WITHOUT.keys()


def test_writes_of_the_controller_are_documented() -> None:
    written = {
        (right.verb, right.resource)
        for row in ROWS
        for right in row.rights
        if row.program == "controller" and right.verb in rights.WRITES
    }
    assert rights.writes_of_the_controller() == written


@pytest.mark.parametrize("program", PROGRAMS)
def test_page_lists_the_rights_of_the_manifests(program: str) -> None:
    assert given(everything(), program) == documented(program, BY_DEFAULT)


@pytest.mark.packaging
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("values", SETS, ids=lambda values: ", ".join(sorted(values)) or "none")
async def test_page_lists_the_rights_that_the_values_give(helm: Path, values: frozenset[str]) -> None:
    chosen = [pair[name not in values] for name, pair in VALUES.items()]
    rendered = (await made(helm, " ".join((EVERY_PART, *chosen)))).values()
    found = [each for each in rendered if "helm test" in values or not of_test(each)]
    for program in PROGRAMS:
        assert given(found, program) == documented(program, values)
