"""What a pod asks for, before and after the API server has filled in its defaults, and its QoS class."""

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
    # what it shows                                pod                                       class
    ("limits alone are requests too",               pod("cpu=..4 mem=..1Gi"),                 GUARANTEED),
    ("requests equal to limits",                    pod(BOTH),                                GUARANTEED),
    ("a fraction of a CPU is no matter",            pod("cpu=500m mem=1Gi"),                  GUARANTEED),
    ("devices do not count",                        pod("cpu=4 mem=1Gi gpu=1"),               GUARANTEED),
    ("every container, init containers included",   pod("init cpu=1 mem=1Gi", BOTH),          GUARANTEED),
    ("one init container without limits spoils it", pod("init", BOTH),                        BURSTABLE),
    ("a sidecar without limits as well",            pod("sidecar cpu=1..", BOTH),             BURSTABLE),
    ("cpu without memory",                          pod("cpu=4"),                             BURSTABLE),
    ("memory without cpu",                          pod("mem=1Gi"),                           BURSTABLE),
    ("requests below limits",                       pod("cpu=2..4 mem=1Gi"),                  BURSTABLE),
    ("requests without limits",                     pod("cpu=4.. mem=1Gi.."),                 BURSTABLE),
    ("one container asks, the other does not",      pod(BOTH, ""),                            BURSTABLE),
    ("sums agree although containers differ",       pod("cpu=1..2 mem=1Gi", "cpu=2 mem=1Gi"), BURSTABLE),
    ("nothing asked",                               pod(""),                                  BEST_EFFORT),
    ("zero is nothing",                             pod("cpu=0 mem=0"),                       BEST_EFFORT),
    ("devices alone are nothing",                   pod("gpu=1"),                             BEST_EFFORT),
    ("no container at all",                         pod(),                                    BEST_EFFORT),
    ("the pod level decides",                       pod("cpu=1", requests=BOTH, limits=BOTH), GUARANTEED),
    ("the pod level above what containers ask",     pod(BOTH, limits="cpu=8 mem=8Gi"),        BURSTABLE),
    ("the pod level limits alone",                  pod("", limits="cpu=8 mem=8Gi"),          GUARANTEED),
    ("a pod level without an amount is none",       pod(BOTH, limits=""),                     GUARANTEED),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "quality"), table(CLASSES))
def test_the_class_is_the_one_that_kubernetes_would_give(asked: Pod, quality: Qos) -> None:
    assert qos(asked.defaulted()) is quality


def test_a_limit_without_a_request_is_also_the_request() -> None:
    [container] = pod("cpu=1..2 mem=..1Gi gpu=..1").defaulted().containers

    assert container.requests == bag("cpu=1 mem=1Gi gpu=1")
    assert container.limits == bag("cpu=2 mem=1Gi gpu=1")


RAISED = pod("", requests="cpu=1 mem=1Gi", limits="cpu=2 mem=1Gi")
EQUAL = pod("", requests="cpu=2 mem=1Gi", limits="cpu=2 mem=1Gi")

GAPS = [
    # what it shows                  the pod                             first to keep it from that
    ("nothing",                      pod("cpu=4 mem=1Gi"),               None),
    ("no limit of a sidecar",        pod("sidecar | cpu=4 mem=1Gi"),     ("c0", "cpu", "", "")),
    ("no limit of memory",           pod("cpu=4 mem=1Gi | cpu=1 gpu=1"), ("c1", "memory", "", "")),
    ("a request below its limit",    pod("cpu=4 mem=1Gi..2Gi"),          ("c0", "memory", "1Gi", "2Gi")),
    ("a request without a limit",    pod("cpu=100m.. mem=1Gi"),          ("c0", "cpu", "100m", "")),
    ("a request of zero",            pod("cpu=0..1 mem=1Gi"),            ("c0", "cpu", "", "1")),
    ("the pod level, if it is set",  RAISED,                             ("", "cpu", "1", "2")),
    ("nothing, if that is equal",    EQUAL,                              None),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "gap"), table(GAPS))
def test_what_keeps_a_pod_from_being_guaranteed(asked: Pod, gap: tuple[str, str, str, str] | None) -> None:
    found = qos_gap(asked.defaulted())

    assert (found is None) is (gap is None)
    if found and gap:
        container, name, request, limit = gap
        amounts = (parse_amount(name, amount or "0") for amount in (request, limit))
        assert (found.container, found.resource, found.request, found.limit) == (container, name, *amounts)


@given(drawn(fleets.pod))
def test_a_pod_is_guaranteed_if_nothing_keeps_it_from_that(asked: Pod) -> None:
    full = asked.defaulted()

    assert (qos(full) is Qos.GUARANTEED) is (qos_gap(full) is None)


POD_LEVEL = [
    # what it shows                     containers          limits           requests
    ("what containers ask together",     ("cpu=1", "cpu=2"), "cpu=8",         "cpu=3"),
    ("the limit where none asks",        ("cpu=1",),         "cpu=8 mem=1Gi", "cpu=1 mem=1Gi"),
    ("devices are not of the pod level", ("cpu=1 gpu=1",),   "cpu=8",         "cpu=1"),
    ("hugepages are",                    ("huge=1Gi",),      "cpu=8",         "cpu=8 huge=1Gi"),
]  # fmt: skip


STORED = [
    # what it shows                                version, containers,                pod-level limits
    ("up to 1.36 as they are written",              36, ("cpu=1 mem=1Gi",),           "cpu=2"),
    ("since 1.37 what every container limits",      37, ("cpu=1 mem=1Gi",),           "cpu=2 mem=1Gi"),
    ("but nothing that one does not limit",         37, ("cpu=1 mem=1Gi", "cpu=1"),   "cpu=2"),
    ("a limit of zero is one in 1.37",              37, ("cpu=1 mem=0",),             "cpu=2 mem=0"),
    ("and none in 1.38",                            38, ("cpu=1 mem=0",),             "cpu=2"),
    ("hugepages too",                               37, ("cpu=1 huge=1Gi",),          "cpu=2 huge=1Gi"),
]  # fmt: skip


@pytest.mark.parametrize(("minor", "containers", "limits"), table(STORED))
def test_an_api_server_sets_pod_level_limits(minor: int, containers: tuple[str, ...], limits: str) -> None:
    assert pod(*containers, limits="cpu=2").stored(minor).pod_limits == bag(limits)


@pytest.mark.parametrize(("containers", "limits", "requests"), table(POD_LEVEL))
def test_pod_level_requests_are_filled_in(containers: tuple[str, ...], limits: str, requests: str) -> None:
    assert pod(*containers, limits=limits).defaulted().pod_requests == bag(requests)


# The first two rows restate topology_hints_test.go of the kubelet's CPU manager.
PEAKS = [
    # what it shows                          what runs                                                 most
    ("init containers beside sidecars",       "init 5, sidecar 1, sidecar 2, init 5, sidecar 3, app 1", 8),
    ("a large one after a sidecar",           "sidecar 10, init 200, app 100",                          210),
    ("apps run together",                     "app 10, app 10",                                         20),
    ("init containers run one after another", "init 10, init 12, app 4",                                12),
    ("a sidecar stays beside those before",   "sidecar 4, sidecar 5",                                   9),
    ("an init container before any sidecar",  "init 10, sidecar 4, app 5",                              10),
    ("apps beside sidecars",                  "init 10, sidecar 4, app 7",                              11),
    ("nothing runs",                          "",                                                       0),
]  # fmt: skip

ROLES = {"init": Role.INIT, "sidecar": Role.SIDECAR, "app": Role.APP}


@pytest.mark.parametrize(("runs", "most"), table(PEAKS))
def test_a_pod_holds_at_most(runs: str, most: int) -> None:
    pairs = [part.split() for part in runs.split(", ") if part]
    asked = [(ROLES[role], bag(f"cpu={amount}")) for role, amount in pairs]

    assert peak(asked).get("cpu", 0) == most * 1000


BAGS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9), max_size=4).map(Resources)


@given(st.lists(st.tuples(st.sampled_from(Role), BAGS), max_size=8))
def test_the_peak_is_the_most_of_all_moments(asked: list[tuple[Role, Resources]]) -> None:
    beside = before = together = EMPTY
    for role, amounts in asked:
        if role is Role.INIT:
            before = before.most(beside.plus(amounts))
        elif role is Role.SIDECAR:
            beside = beside.plus(amounts)
            before = before.most(beside)
        else:
            together = together.plus(amounts)

    assert peak(asked) == before.most(beside.plus(together))
