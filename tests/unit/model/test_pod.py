"""Requests of a pod, before and after the API server has filled in its defaults, and its QoS class."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.model.pod import Pod, Qos, Role, peak, qos, qos_gap
from numalign.model.resources import EMPTY, Resources, parse_amount
from tests.laws import fleets
from tests.laws.fleets import drawn
from tests.worlds.notation import bag, pod, table

BOTH = "cpu=4 mem=1Gi"
GUARANTEED, BURSTABLE, BEST_EFFORT = Qos

CLASSES = [
    # what it shows                                 pod                                       class
    ("limits alone are requests too",               pod("cpu=..4 mem=..1Gi"),                 GUARANTEED),
    ("requests equal to limits",                    pod(BOTH),                                GUARANTEED),
    ("a fraction of a CPU is no matter",            pod("cpu=500m mem=1Gi"),                  GUARANTEED),
    ("every container, init containers included",   pod("init cpu=1 mem=1Gi", BOTH),          GUARANTEED),
    ("one init container without limits spoils it", pod("init", BOTH),                        BURSTABLE),
    ("memory without cpu",                          pod("mem=1Gi"),                           BURSTABLE),
    ("requests below limits",                       pod("cpu=2..4 mem=1Gi"),                  BURSTABLE),
    ("sums agree although containers differ",       pod("cpu=1..2 mem=1Gi", "cpu=2 mem=1Gi"), BURSTABLE),
    ("no request",                                  pod(""),                                  BEST_EFFORT),
    ("devices alone are nothing",                   pod("gpu=1"),                             BEST_EFFORT),
    ("the pod level decides",                       pod("cpu=1", requests=BOTH, limits=BOTH), GUARANTEED),
    ("the pod level above the containers",          pod(BOTH, limits="cpu=8 mem=8Gi"),        BURSTABLE),
    ("the pod level limits alone",                  pod("", limits="cpu=8 mem=8Gi"),          GUARANTEED),
    ("a pod level without an amount is none",       pod(BOTH, limits=""),                     GUARANTEED),
]  # fmt: skip


@pytest.mark.parametrize(("made", "quality"), table(CLASSES))
def test_qos_class_is_that_of_kubernetes(made: Pod, quality: Qos) -> None:
    assert qos(made.defaulted()) is quality


def test_limit_without_a_request_is_the_request() -> None:
    [container] = pod("cpu=1..2 mem=..1Gi gpu=..1").defaulted().containers
    assert container.requests == bag("cpu=1 mem=1Gi gpu=1")
    assert container.limits == bag("cpu=2 mem=1Gi gpu=1")


RAISED = pod("", requests="cpu=1 mem=1Gi", limits="cpu=2 mem=1Gi")
EQUAL = pod("", requests="cpu=2 mem=1Gi", limits="cpu=2 mem=1Gi")

GAPS = [
    # what it shows                 the pod                             first to keep it from that
    ("no limit of a sidecar",       pod("sidecar | cpu=4 mem=1Gi"),     ("c0", "cpu", "", "")),
    ("no limit of memory",          pod("cpu=4 mem=1Gi | cpu=1 gpu=1"), ("c1", "memory", "", "")),
    ("a request below its limit",   pod("cpu=4 mem=1Gi..2Gi"),          ("c0", "memory", "1Gi", "2Gi")),
    ("a request of zero",           pod("cpu=0..1 mem=1Gi"),            ("c0", "cpu", "", "1")),
    ("the pod level, if it is set", RAISED,                             ("", "cpu", "1", "2")),
    ("nothing, if that is equal",   EQUAL,                              None),
]  # fmt: skip


@pytest.mark.parametrize(("made", "gap"), table(GAPS))
def test_gap_keeps_a_pod_from_being_guaranteed(made: Pod, gap: tuple[str, str, str, str] | None) -> None:
    first = qos_gap(made.defaulted())
    assert (first is None) is (gap is None)
    if first and gap:
        container, name, request, limit = gap
        amounts = (parse_amount(name, amount or "0") for amount in (request, limit))
        assert (first.container, first.resource, first.request, first.limit) == (container, name, *amounts)


@given(drawn(fleets.pod))
def test_pod_without_a_gap_is_guaranteed(made: Pod) -> None:
    full = made.defaulted()
    assert (qos(full) is Qos.GUARANTEED) is (qos_gap(full) is None)


POD_LEVEL = [
    # what it shows                      containers          limits           requests
    ("what containers request together", ("cpu=1", "cpu=2"), "cpu=8",         "cpu=3"),
    ("the limit where none requests",    ("cpu=1",),         "cpu=8 mem=1Gi", "cpu=1 mem=1Gi"),
    ("devices are not of the pod level", ("cpu=1 gpu=1",),   "cpu=8",         "cpu=1"),
    ("hugepages are",                    ("huge=1Gi",),      "cpu=8",         "cpu=8 huge=1Gi"),
]  # fmt: skip


STORED = [
    # what it shows                                version, containers,                pod-level limits
    ("up to 1.36 as they are written",         36, ("cpu=1 mem=1Gi",),         "cpu=2"),
    ("since 1.37 what every container limits", 37, ("cpu=1 mem=1Gi",),         "cpu=2 mem=1Gi"),
    ("but nothing that one does not limit",    37, ("cpu=1 mem=1Gi", "cpu=1"), "cpu=2"),
    ("a limit of zero is one in 1.37",         37, ("cpu=1 mem=0",),           "cpu=2 mem=0"),
    ("and none in 1.38",                       38, ("cpu=1 mem=0",),           "cpu=2"),
]  # fmt: skip


@pytest.mark.parametrize(("minor", "containers", "limits"), table(STORED))
def test_an_api_server_sets_pod_level_limits(minor: int, containers: tuple[str, ...], limits: str) -> None:
    assert pod(*containers, limits="cpu=2").stored(minor).pod_limits == bag(limits)


@pytest.mark.parametrize(("containers", "limits", "requests"), table(POD_LEVEL))
def test_pod_level_requests_are_filled_in(containers: tuple[str, ...], limits: str, requests: str) -> None:
    assert pod(*containers, limits=limits).defaulted().pod_requests == bag(requests)


BAGS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9), max_size=4).map(Resources)


@given(st.lists(st.tuples(st.sampled_from(Role), BAGS), max_size=8))
def test_peak_is_the_most_of_all_moments(steps: list[tuple[Role, Resources]]) -> None:
    sidecars = before = apps = EMPTY
    for role, amounts in steps:
        if role is Role.INIT:
            before = before.most(sidecars.plus(amounts))
        elif role is Role.SIDECAR:
            sidecars = sidecars.plus(amounts)
            before = before.most(sidecars)
        else:
            apps = apps.plus(amounts)
    assert peak(steps) == before.most(sidecars.plus(apps))
