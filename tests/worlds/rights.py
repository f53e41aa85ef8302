"""The tables of docs/explanation/security.md: each right, when it is given, what happens without it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "security.md"

HEAD = ("right", "where", "only with", "what for", "without it")
CLUSTER, NAMESPACE = "everywhere", "in its namespace"
PROGRAMS = ("webhook", "controller", "scorer", "agent", "scheduler", "test")


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource; `where` is one of the words above, `name` empty for any."""

    where: str
    group: str
    resource: str
    verb: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table: rights, or roles that others keep, and the values with which they are given.

    All of the values, or with `any_of` one of them.
    """

    program: str
    rights: tuple[Right, ...]
    roles: tuple[str, ...]
    values: frozenset[str]
    reason: str
    without: str
    any_of: bool = False

    def given_with(self, values: frozenset[str]) -> bool:
        """Whether its rights are given where these values are met."""
        return not self.values.isdisjoint(values) if self.any_of else self.values <= values

    @property
    def events(self) -> tuple[str, ...]:
        return tuple(re.findall(r"`([a-z_]+\.[a-z_]+)`", self.without))

    def __str__(self) -> str:
        said = {f"{each.verb} {each.resource} {each.name}".rstrip() for each in self.rights}
        return f"{self.program}: {', '.join(sorted(said or self.roles))}"


def rows() -> list[Row]:
    return [row for program in PROGRAMS for row in _rows(program)]


def _rows(program: str) -> Iterator[Row]:
    section = PAGE.read_text().split(f"\n## The {program}\n")[1].split("\n## ")[0]
    _, head, below = section.partition(f"| {' | '.join(HEAD)} |\n")
    assert head
    lines = [line.strip("|").split("|") for line in below.split("\n\n")[0].splitlines()]
    table = [tuple(cell.strip() for cell in line) for line in lines]
    for right, where, values, reason, without in table[1:]:
        [said] = re.findall(r"`([^`]+)`", right)
        given = () if right.startswith("role ") else tuple(_rights(said, where))
        roles = (said,) if right.startswith("role ") else ()
        named = frozenset(re.findall(r"`([^`]+)`", values))
        yield Row(program, given, roles, named, reason, without, any_of="` or `" in values)


WRITES = frozenset({"create", "update", "patch", "delete"})


def writes_of_the_controller() -> set[tuple[str, str]]:
    """Verb and resource of each line of the table of its writes."""
    section = PAGE.read_text().split("\n## Every write of the controller\n")[1].split("\n## ")[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return {
        (verb, resource)
        for verbs, resources, *_ in lines
        for verb in re.findall(r"`([^`]+)`", verbs)
        for resource in re.findall(r"`([^`]+)`", resources)
    }


def _rights(said: str, where: str) -> Iterator[Right]:
    """`get, update leases.coordination.k8s.io numalign-scorer`."""
    found = re.fullmatch(r"((?:[a-z]+, )*[a-z]+) ([a-z/]+)(?:\.([a-z0-9.]+))?(?: (\S+))?", said)
    assert found, said
    verbs, resource, group, name = found.groups()
    for verb in verbs.split(", "):
        yield Right(where, group or "", resource, verb, name or "")


def of_role(role: dict[str, Any]) -> Iterator[Right]:
    where = NAMESPACE if role["kind"] == "Role" else CLUSTER
    for rule in role["rules"]:
        names = rule.get("resourceNames", [""])
        for group, resource, verb, name in product(
            rule["apiGroups"], rule["resources"], rule["verbs"], names
        ):
            yield Right(where, group, resource, verb, name)
