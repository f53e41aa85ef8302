"""What a node is, what its kubelet aligns, and the name of its class."""

import re
from typing import Any

import pytest

from numalign.rules.intent import Policy, Scope
from numalign.rules.topology import (
    DEFAULT_MAX_ZONES,
    CpuManager,
    Known,
    MemoryManager,
    Node,
    managers,
    node_class,
)
from tests.notation import GPU, NIC, node, table, zone

LIKE = "cpu=16/15 mem=10Gi/9Gi gpu=2"
TWO = node("cpu=16/15/4 mem=10Gi/9Gi/1Gi gpu=2", "cpu=16/15 mem=10Gi/9Gi gpu=2//1", policy="restricted")


def test_what_is_not_told_is_the_kubelets_default() -> None:
    untold = Node("node", ())

    assert (untold.policy, untold.scope) == (Policy.NONE, Scope.CONTAINER)
    assert (untold.cpu_manager, untold.memory_manager) == (CpuManager.STATIC, MemoryManager.STATIC)
    assert (untold.max_zones, untold.totals, untold.known) == (DEFAULT_MAX_ZONES, None, Known.COUNTS)


def test_zones_stand_by_their_ids_however_they_were_told() -> None:
    told = node("cpu=1", "cpu=2", "cpu=3", ids=(4, 0, 2))

    assert [zone.id for zone in told.zones] == [0, 2, 4]


def test_an_emptied_node_has_given_out_nothing() -> None:
    used = node("cpu=16/15/4", "cpu=16/15/0", "cpu=16/15/15", blocks=[(0, 1), (2,)])

    assert used.emptied() == node("cpu=16/15", "cpu=16/15", "cpu=16/15")


def test_nodes_of_one_shape_differ_by_name_and_use_alone() -> None:
    other = Node("other", TWO.emptied().zones, TWO.policy, label="a-class")

    assert TWO.shape() == other.shape()
    assert TWO.shape() != node("cpu=16/15", "cpu=16/15").shape()


DEVICES = [
    # what it shows                       zones                          devices
    ("what any zone has",                  ("gpu=1", "nic=1"),            {GPU, NIC}),
    ("a device that is out of use counts", ("gpu=1/0", "cpu=1"),          {GPU}),
    ("zero is none",                       ("gpu=0", "cpu=1"),            set()),
    ("cpu and memory are no devices",      ("cpu=1 mem=1Gi", "huge=1Gi"), set()),
]  # fmt: skip


@pytest.mark.parametrize(("zones", "devices"), table(DEVICES))
def test_devices_with_a_topology_are(zones: tuple[str, ...], devices: set[str]) -> None:
    assert node(*zones).devices == devices


ALIGNED = [
    # what it shows               zone                   policy              aligned
    ("all of it",                  "cpu=1 mem=1Gi gpu=1", "restricted",       "cpu memory gpu"),
    ("a single zone as well",      "cpu=1 mem=1Gi gpu=1", "single-numa-node", "cpu memory gpu"),
    ("even if nothing is refused", "cpu=1 mem=1Gi gpu=1", "best-effort",      "cpu memory gpu"),
    ("no device that no zone has", "cpu=1 mem=1Gi",       "restricted",       "cpu memory"),
    ("no cpu unless managed",      "mem=1Gi gpu=1",       "restricted",       "memory gpu"),
    ("no memory unless managed",   "cpu=1 gpu=1",         "restricted",       "cpu gpu"),
    ("nothing under policy none",  "cpu=1 mem=1Gi gpu=1", "none",             ""),
]  # fmt: skip


@pytest.mark.parametrize(("told", "policy", "aligned"), table(ALIGNED))
def test_a_kubelet_aligns(told: str, policy: str, aligned: str) -> None:
    names = {"cpu": "cpu", "memory": "memory", "gpu": GPU, "pods": "pods", "storage": "ephemeral-storage"}
    kubelet = node(told, policy=policy)

    assert [short for short, name in names.items() if kubelet.aligns(name)] == aligned.split()


MANAGERS = [
    # what it shows                     zones                   cpu       memory
    ("both list what they give out",     ["cpu=16", "mem=10Gi"], "static", "Static"),
    ("hugepages are memory too",         ["cpu=16 huge=1Gi"],    "static", "Static"),
    ("no memory listed",                 ["cpu=16", "cpu=16"],   "static", "None"),
    ("cpu listed, but none to give out", ["cpu=16/0 mem=10Gi"],  "none",   "Static"),
    ("devices alone",                    ["gpu=1"],              "none",   "None"),
    ("no zone",                          [],                     "none",   "None"),
]  # fmt: skip


@pytest.mark.parametrize(("zones", "cpu", "memory"), table(MANAGERS))
def test_the_managers_show_in_what_zones_list(zones: list[str], cpu: str, memory: str) -> None:
    assert managers([zone(text) for text in zones]) == (cpu, memory)


NAMES = [
    # what it shows           zones                      policy         readable
    ("zones, CPUs and policy", ["cpu=16", "cpu=16"],      "best-effort", "2x16cpu-best-effort-container"),
    ("the largest zone",       ["gpu=1", "cpu=16 gpu=4"], "none",        "2x16cpu-4gpu-none-container"),
    ("devices by name",        ["nic=1 gpu=2"],           "none",        "1z-1nic-2gpu-none-container"),
    ("parts of CPUs hide",     ["cpu=16500m"],            "none",        "1x16cpu-none-container"),
    ("no zone",                [],                        "none",        "0z-none-container"),
]  # fmt: skip


@pytest.mark.parametrize(("zones", "policy", "readable"), table(NAMES))
def test_a_class_can_be_read(zones: list[str], policy: str, readable: str) -> None:
    name, _, digest = node_class(node(*zones, policy=policy)).rpartition("-")

    assert name == readable
    assert re.fullmatch(r"[0-9a-f]{8}", digest)


OFF = CpuManager.NONE

SAME = [
    # what it shows              its first zone                        and its                  same class
    ("what is given out",         "cpu=16/15/0 mem=10Gi/9Gi/0 gpu=2",   {},                      True),
    ("less than a GiB of memory", "cpu=16/15 mem=10500Mi/9500Mi gpu=2", {},                      True),
    ("a GiB of memory",           "cpu=16/15 mem=11Gi/9Gi gpu=2",       {},                      False),
    ("a reserved CPU",            "cpu=16/14 mem=10Gi/9Gi gpu=2",       {},                      False),
    ("a device",                  "cpu=16/15 mem=10Gi/9Gi gpu=1",       {},                      False),
    ("the policy",                LIKE,                                 {"policy": "none"},      False),
    ("the scope",                 LIKE,                                 {"scope": "pod"},        False),
    ("the ids of zones",          LIKE,                                 {"ids": (0, 3)},         False),
    ("how its CPUs are managed",  LIKE,                                 {"cpu_manager": OFF},    False),
    ("what nobody told",          LIKE,                                 {"totals": "cpu=30"},    True),
]  # fmt: skip


@pytest.mark.parametrize(("first", "facts", "same"), table(SAME))
def test_a_class_is_told_apart_by(first: str, facts: dict[str, Any], *, same: bool) -> None:
    other = node(first, LIKE, **{"policy": "restricted", **facts})

    assert (node_class(TWO) == node_class(other)) is same


def test_a_class_is_the_same_in_every_process() -> None:
    assert node_class(node("cpu=16", "cpu=16")) == "2x16cpu-none-container-3b3461d8"


def test_a_class_is_a_label_value_however_much_a_node_has() -> None:
    many = " ".join(f"example.com/A_Device.{letter}-=16" for letter in "abcdefghij")

    assert re.fullmatch(r"[a-z0-9][-a-z0-9]{0,61}[a-z0-9]", node_class(node(many, many)))
