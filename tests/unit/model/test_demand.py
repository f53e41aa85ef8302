"""The demand of a pod: what each container gets exclusively, and what the pod requests in total."""

from dataclasses import replace

import pytest

from numalign.model import demand
from numalign.model.demand import WHOLE_POD
from numalign.model.pod import Container, Pod, Role
from numalign.model.resources import Resources
from tests.worlds.notation import GPU, HUGE, NIC, asks, bag, pod, table

STEPS = [
    # what it shows                    container                     exclusive                 only loosely
    ("whole CPUs, memory and devices", "cpu=4 mem=1Gi gpu=2",        "cpu=4 mem=1Gi gpu=2",    ""),
    ("a fraction of a CPU is shared", "cpu=1500m mem=1Gi",          "mem=1Gi",                "cpu=1500m"),
    ("hugepages are memory", "cpu=4 mem=1Gi huge=2Gi",     "cpu=4 mem=1Gi huge=2Gi", ""),
    ("devices of a Burstable pod", "cpu=4 mem=1Gi..2Gi gpu=1",   "gpu=1",                  "cpu=4 mem=1Gi"),
    ("devices count by their limit", "gpu=..2",                    "gpu=2",                  ""),
    ("what is kept per node", "cpu=4 mem=1Gi storage=1Gi",  "cpu=4 mem=1Gi",          ""),
    ("zero is no request", "cpu=4 mem=1Gi gpu=0 huge=0", "cpu=4 mem=1Gi",          ""),
    ("nothing", "",                           "",                       ""),
]  # fmt: skip


@pytest.mark.parametrize(("container", "own", "loose"), table(STEPS))
def test_container_demand_is_exclusive_or_loose(container: str, own: str, loose: str) -> None:
    [step] = asks(container).steps
    assert (step.requests, step.loose) == (bag(own), bag(loose))
    assert (step.container, step.role) == ("c0", Role.APP)


ALIGNABLE = [
    ("CPUs of its own", "cpu=4 mem=1Gi", True),
    ("memory of its own alone", "cpu=500m mem=1Gi", True),
    ("a device alone", "gpu=1", True),
    ("only shared CPUs", "cpu=4", False),
]


@pytest.mark.parametrize(("container", "alignable"), table(ALIGNABLE))
def test_alignable_demand_can_be_pinned(container: str, *, alignable: bool) -> None:
    assert asks(container).alignable is alignable


# The sums of CPUs restate topology_hints_test.go of the kubelet's CPU manager.
M = "mem=1Gi"
MANY = f"init cpu=5 {M} | sidecar cpu=1 {M} | sidecar cpu=2 {M} | init cpu=5 {M} | sidecar cpu=3 {M}"

WHOLE = [
    # what it shows             containers                      requested
    ("apps together",           f"cpu=10 {M} | cpu=10 mem=2Gi", "cpu=20 mem=3Gi"),
    ("no part of a CPU",        f"cpu=10 {M} | cpu=10500m {M}", "cpu=10 mem=2Gi"),
    ("beside sidecars",         f"{MANY} | cpu=1 {M}", "cpu=8 mem=4Gi"),
    ("a large init",            f"sidecar cpu=10 {M} | init cpu=200 {M} | cpu=9 {M}", "cpu=210 mem=2Gi"),
    ("init hugepages",          f"init cpu=1 {M} huge=4Gi | cpu=1 {M}", "cpu=1 mem=1Gi"),
    ("if an app requests some", f"init cpu=1 {M} huge=4Gi | cpu=1 {M} huge=1Gi", "cpu=1 mem=1Gi huge=4Gi"),
    ("init devices",            f"init cpu=1 {M} gpu=2 | cpu=1 {M}", "cpu=1 mem=1Gi gpu=2"),
]  # fmt: skip


EXCLUSIVE = [
    # what it shows                containers                                      whole CPUs
    ("apps together",              f"cpu=4 {M} | cpu=2 {M}",                       6),
    ("the largest init container", f"init cpu=9 {M} | cpu=4 {M} | cpu=2 {M}",      9),
    ("init containers in turn",    f"init cpu=3 {M} | init cpu=3 {M} | cpu=2 {M}", 3),
    ("sidecars beside",            f"sidecar cpu=1 {M} | cpu=4 {M}",               5),
    ("none of a Burstable pod",    f"cpu=4 {M} | cpu=1..2 {M}",                    0),
]  # fmt: skip


@pytest.mark.parametrize(("containers", "cpus"), table(EXCLUSIVE))
def test_exclusive_cpus_of_a_pod_at_most(containers: str, cpus: int) -> None:
    assert asks(*containers.split(" | ")).exclusive_cpus == cpus


@pytest.mark.parametrize(("containers", "requested"), table(WHOLE))
def test_demand_of_a_pod_in_pod_scope(containers: str, requested: str) -> None:
    whole = asks(containers).whole
    assert whole.requests == bag(requested)
    assert (whole.container, whole.role) == (WHOLE_POD, Role.APP)


STATED = "cpu=4 mem=4Gi"

SHARED = [
    # what it shows                   the pod                     shared until it ends
    ("nothing",                       pod("cpu=4 mem=1Gi gpu=1"), ""),
    ("a fraction",                    pod("cpu=4 mem=1Gi | cpu=500m mem=1Gi"), "cpu=500m"),
    ("that of a sidecar, too",        pod("sidecar cpu=1.5 mem=1Gi | cpu=0.5 mem=1Gi"), "cpu=2"),
    ("not that of an init container", pod("init cpu=500m mem=1Gi | cpu=4 mem=1Gi"), ""),
    ("all of a Burstable pod",        pod("cpu=4 mem=1Gi huge=1Gi | cpu=1.."), "cpu=5 mem=1Gi huge=1Gi"),
    ("what the pod level states",     pod("gpu=1", requests=STATED, limits=STATED), "cpu=4 mem=4Gi"),
]  # fmt: skip


@pytest.mark.parametrize(("requested", "shared"), table(SHARED))
def test_loose_cpus_and_memory_of_a_pod(requested: Pod, shared: str) -> None:
    assert demand.of(requested).whole.loose == bag(shared)


def test_pod_level_shares_only_a_fraction() -> None:
    [whole, broken] = (
        demand.of(pod("gpu=1", requests=stated, limits=stated)).pod_level
        for stated in ("cpu=4 mem=4Gi", "cpu=3500m mem=4Gi")
    )
    assert whole
    assert broken
    assert (whole.whole.loose, broken.whole.loose) == (bag(""), bag("cpu=3500m"))


BY_PLUGINS = [
    # what it shows                 the zones list  requested
    ("another device is requested", {NIC},      "cpu=4 mem=1Gi nic=1"),
    ("what the zones list, too",    {NIC, GPU}, "cpu=4 mem=1Gi nic=1 gpu=2"),
]  # fmt: skip


@pytest.mark.parametrize(("listed", "requested"), table(BY_PLUGINS))
def test_devices_of_dra_listed_by_zones_are_evaluated(listed: set[str], requested: str) -> None:
    whole = replace(asks("cpu=4 mem=1Gi nic=1 gpu=2"), by_dra=frozenset({GPU}))
    plugins = demand.by_plugins(whole, listed)
    assert (plugins.whole.requests, plugins.total) == (bag(requested), bag(requested))


TOTALS = [
    # what it shows             pod                                               reserved
    ("containers together",     pod("cpu=500m..1 mem=1Gi | cpu=1.. gpu=1"),       "cpu=1500m mem=1Gi gpu=1"),
    ("init containers at most", pod("init cpu=4.. | cpu=1.."),                    "cpu=4"),
    ("what the runtime adds",   pod("cpu=1..", overhead="cpu=250m mem=64Mi"),     "cpu=1250m mem=64Mi"),
    ("the pod level overrules", pod("cpu=1.. gpu=1", requests="cpu=6"),           "cpu=6 gpu=1"),
    ("the runtime adds to it",  pod("cpu=1..", limits="cpu=8", overhead="cpu=1"), "cpu=2"),
    ("nothing",                 pod("cpu=0"),                                     ""),
]  # fmt: skip


@pytest.mark.parametrize(("requested", "reserved"), table(TOTALS))
def test_total_is_what_the_scheduler_reserves(requested: Pod, reserved: str) -> None:
    assert demand.of(requested).total == bag(reserved)


def test_amount_changes_container_pod_and_total() -> None:
    two = asks("cpu=4 mem=8Gi gpu=3", "cpu=2 mem=1Gi gpu=1")
    less = demand.with_request(two, "c0", GPU, 1)
    assert less == asks("cpu=4 mem=8Gi gpu=1", "cpu=2 mem=1Gi gpu=1")
    assert demand.with_request(two, "c1", "memory", 2**31) == asks(
        "cpu=4 mem=8Gi gpu=3", "cpu=2 mem=2Gi gpu=1"
    )


def test_exclusive_cpus_stay_whole() -> None:
    assert demand.with_request(asks("cpu=4 mem=1Gi"), "c0", "cpu", 2500).steps[0].cpu == 2000


def test_pod_demand_as_one_container() -> None:
    one = demand.with_request(asks("cpu=4 mem=8Gi gpu=3", "cpu=2 mem=1Gi gpu=1"), WHOLE_POD, GPU, 2)
    assert [step.requests for step in one.steps] == [bag("cpu=6 mem=9Gi gpu=2")]
    assert one.total == bag("cpu=6 mem=9Gi gpu=2")


class Named(str):
    """A name of a resource that counts look-ups."""

    __slots__ = ()
    lookups = 0

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        Named.lookups += 1
        return str.__hash__(self)


def work(containers: int, role: Role, limits: Resources | None = None) -> int:
    """Look-ups of names for the demand of a pod with ten names in each container."""
    ours = {"cpu": 1000, "memory": 2**30}
    own = [
        Resources(
            {**ours, **{Named(f"{prefix}{at:03d}-{each}"): 1 for each in range(5) for prefix in ("x", HUGE)}}
        )
        for at in range(containers)
    ]
    made = [Container(f"c{at}", role, each, each) for at, each in enumerate(own)]
    before = Named.lookups
    demand.of(Pod("p", containers=(*made, Container("last", Role.APP, own[0], own[0])), pod_limits=limits))
    return Named.lookups - before


@pytest.mark.full
@pytest.mark.parametrize("role", Role)
def test_demand_is_linear_in_containers(role: Role) -> None:
    assert work(100, role) < 2.1 * work(50, role)
    stated = bag("cpu=400 mem=400Gi").plus({Named(f"{HUGE}{at}"): 1 for at in range(200)})
    assert work(100, role, stated) < 2.1 * work(50, role, stated)
