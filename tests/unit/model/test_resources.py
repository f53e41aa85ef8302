"""Bags of resources: how they add up, and which manager answers for which name."""

import pytest

from numalign.model.errors import BadQuantity
from numalign.model.resources import (
    LONGEST_EXACT,
    Kind,
    Resources,
    kind,
    parse,
    readable_zone,
    render,
    render_short,
)
from tests.worlds.notation import GPU, bag, table

KINDS = [
    ("cpu",                     Kind.CPU),
    ("memory",                  Kind.MEMORY),
    ("hugepages-1Gi",           Kind.MEMORY),
    ("hugepages-2Mi",           Kind.MEMORY),
    ("nvidia.com/gpu",          Kind.DEVICE),
    ("example.com/memory",      Kind.DEVICE),
    ("ephemeral-storage",       Kind.NODE),
    ("storage",                 Kind.NODE),
    ("pods",                    Kind.NODE),
    ("kubernetes.io/batch-cpu", Kind.NODE),
    ("x.kubernetes.io/a",       Kind.NODE),
]  # fmt: skip


@pytest.mark.parametrize(("name", "manager"), KINDS, ids=[row[0] for row in KINDS])
def test_name_of_a_resource_decides_its_manager(name: str, manager: Kind) -> None:
    assert kind(name) is manager


def test_amounts_are_in_the_unit_of_their_name() -> None:
    read = parse({"cpu": "1500m", "memory": "1Ki", "hugepages-2Mi": "4Mi", GPU: 2})
    assert dict(read) == {"cpu": 1500, "memory": 1024, "hugepages-2Mi": 2**22, GPU: 2}


def test_every_invalid_amount_is_named_with_its_place() -> None:
    with pytest.raises(BadQuantity) as caught:
        parse({"cpu": "4x", "memory": "1Gi", GPU: -1}, where="spec.requests")
    places = [mistake.where for mistake in caught.value.mistakes]
    assert places == ["spec.requests.cpu", f"spec.requests.{GPU}"]


RENDERED = [
    ("whole CPUs",            "cpu",    2000,  "2"),
    ("parts of a CPU",        "cpu",    2500,  "2500m"),
    ("memory",                "memory", 2**31, "2Gi"),
    ("devices, however many", GPU,      1024,  "1024"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "amount", "text"), table(RENDERED))
def test_amounts_are_rendered_as_people_write_them(name: str, amount: int, text: str) -> None:
    assert render(name, amount) == text


ADDED = [
    # what it shows       one            other            plus                   most
    ("names of both",     "cpu=1 gpu=1", "cpu=2 mem=1Gi", "cpu=3 gpu=1 mem=1Gi", "cpu=2 gpu=1 mem=1Gi"),
    ("nothing to add",    "cpu=1",       "",              "cpu=1",               "cpu=1"),
    ("zero stays a name", "gpu=0",       "",              "gpu=0",               "gpu=0"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "plus", "most"), table(ADDED))
def test_bags_are_added_name_by_name(one: str, other: str, plus: str, most: str) -> None:
    assert bag(one).plus(bag(other)) == bag(plus)
    assert bag(one).most(bag(other)) == bag(most)


def test_equal_bags_are_one_key_in_any_order() -> None:
    one, other = bag("cpu=1 gpu=0"), bag("gpu=0 cpu=1")
    assert one == other
    assert hash(one) == hash(other)
    assert list(one) == list(other)
    assert one != bag("cpu=1")


def test_bag_has_its_own_copy() -> None:
    written = {"cpu": 1}
    bag_ = Resources(written)
    written["cpu"] = 2
    assert bag_["cpu"] == 1


@pytest.mark.parametrize(
    ("resource", "amount", "shown"),
    table(
        [
            ("whole CPUs", "cpu", 62_000, "62"),
            ("a part of a CPU", "cpu", 1_500, "1500m"),
            ("memory that divides", "memory", 504 * 2**30, "504Gi"),
            ("memory that does not", "memory", 541_165_875_201, "504.0Gi"),
            ("a few bytes", "memory", 17, "17"),
            ("devices", "nvidia.com/gpu", 4, "4"),
        ]
    ),
)
def test_amounts_for_people_are_short(resource: str, amount: int, shown: str) -> None:
    assert render_short(resource, amount) == shown
    assert len(shown) <= LONGEST_EXACT


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("node-0", "zone 0"),
        ("numa-node-12", "zone 12"),
        ("zone-a", "zone-a"),
        ("node-", "node-"),
        ("x\nnode-1", "x\nnode-1"),
        ("node-1234567890", "node-1234567890"),
    ],
)
def test_zone_is_readable_by_its_number(name: str, read: str) -> None:
    assert readable_zone(name) == read
