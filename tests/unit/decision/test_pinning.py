"""What a policy does not apply to in a pod, and the container and field that is the cause."""

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce

import pytest
from hypothesis import assume, event, given

from numalign.decision.pinning import no_effect, partial
from numalign.kubelet.admit import admit
from numalign.model import demand
from numalign.model.placement import Placement
from numalign.model.pod import Pod, Role
from numalign.model.resources import EMPTY, Kind, Resources, kind
from tests.laws import fleets
from tests.laws.fleets import drawn
from tests.worlds.notation import GPU, NIC, means, node, pod, table

SINGLE = "single-numa-node"
BOTH = "cpu and memory are not pinned"
STATED = "cpu=4 mem=4Gi"

PARTIAL = [
    # what it shows, the pod, what it names, and the words after the policy
    ("a sidecar without limits", pod("cpu=8 mem=32Gi gpu=2 | "), "",
         f'{GPU} only: {BOTH}, because container "c1" sets no cpu limit (the pod is Burstable)'),
    ("an init container without limits", pod("init | cpu=8 mem=32Gi gpu=2"), "",
         f'{GPU} only: {BOTH}, because init container "c0" sets no cpu limit (the pod is Burstable)'),
    ("a request below its limit",
        pod("cpu=8 mem=16Gi..32Gi gpu=2"), "",
        (f'{GPU} only: {BOTH}, because container "c0" requests 16Gi memory, and its limit is 32Gi (the pod'
        " is Burstable)")),
    ("no CPUs at all",
        pod("mem=6Gi nic=1 huge=8Gi | mem=12Gi huge=8Gi"), "",
        (f'{NIC} only: hugepages-1Gi and memory are not pinned, because container "c0" sets no cpu limit (the'
        " pod is Burstable)")),
    ("a fraction of a CPU",
        pod("cpu=3500m mem=16Gi gpu=2"), "",
        (f'memory and {GPU} only: cpu is not pinned, because container "c0" requests 3500m cpu, which is'
        " not a whole number")),
    ("a fraction beside whole CPUs",
        pod("cpu=4 mem=1Gi gpu=1 | cpu=500m mem=1Gi"), "",
        (f'part of cpu, memory and {GPU} only: the rest of cpu is not pinned, because container "c1" requests'
        " 500m cpu, which is not a whole number")),
    ("the container that stays, not the one that ends",
        pod("init cpu=500m mem=1Gi | cpu=1500m mem=1Gi"), "",
        ('memory only: cpu is not pinned, because container "c1" requests 1500m cpu, which is not a whole'
        " number")),
    ("pod-level resources",
        pod("gpu=1", requests=STATED, limits=STATED), "",
        (f"{GPU} only: {BOTH}, because the pod sets spec.resources, and kubelets pin such pods only with the"
        " feature gate PodLevelResourceManagers")),
    ("pod-level resources without a limit", pod("gpu=1", requests="cpu=4 mem=4Gi"), "",
         f"{GPU} only: {BOTH}, because spec.resources sets no cpu limit (the pod is Burstable)"),
    ("only what the owner names", pod("cpu=8.. mem=32Gi gpu=2"), "cpu gpu",
         f'{GPU} only: cpu is not pinned, because container "c0" sets no cpu limit (the pod is Burstable)'),
]  # fmt: skip


@pytest.mark.parametrize(("requesting", "names", "text"), table(PARTIAL))
def test_policy_that_applies_in_part_names_the_cause(requesting: Pod, names: str, text: str) -> None:
    assert str(partial(demand.of(requesting), means(f"{SINGLE} {names}"))) == f"{SINGLE} applies to {text}"


WHOLE = [
    # what it shows                              the pod                           what it names
    ("only the device has to be aligned",        pod("cpu=3500m.. mem=1Gi gpu=1"), "gpu"),
    ("what is kept per node does not count",     pod("gpu=1 storage=1Gi"),         ""),
    ("what applies to nothing has its own text", pod("cpu=4.. mem=1Gi"),           ""),
]  # fmt: skip


@pytest.mark.parametrize(("requesting", "names"), table(WHOLE))
def test_policy_applies_to_all_requests(requesting: Pod, names: str) -> None:
    assert partial(demand.of(requesting), means(f"{SINGLE} {names}")) is None


NO_EFFECT = [
    # what it shows, the pod, what it names, and the words after the policy
    ("nothing is pinned",
        pod("cpu=4 mem=1Gi | "), "",
        (f'the pod requests no devices, and {BOTH}, because container "c1" sets no cpu limit (the pod is'
        " Burstable)")),
    ("nothing is requested", pod(""), "",
         'the pod requests no devices, and container "c0" sets no cpu limit (the pod is BestEffort)'),
    ("nothing of what the owner names", pod("cpu=1500m mem=1Gi gpu=1"), "cpu",
         'cpu is not pinned, because container "c0" requests 1500m cpu, which is not a whole number'),
]  # fmt: skip


@pytest.mark.parametrize(("requesting", "names", "text"), table(NO_EFFECT))
def test_policy_without_effect_names_the_cause(requesting: Pod, names: str, text: str) -> None:
    assert no_effect(demand.of(requesting), means(f"{SINGLE} {names}")) == f"{SINGLE} has no effect: {text}"


def test_pinning_text_is_bounded() -> None:
    devices = " ".join(f"{'d' * 300}{at}.example/x=1" for at in range(50))
    huge = " ".join(f"hugepages-{at}{'0' * 60}=1" for at in range(50))
    requesting = pod(f"cpu=1.. mem=1Gi {huge} {devices}")
    long = replace(requesting, containers=(replace(requesting.containers[0], name="x" * 10_000),))
    assert len(str(partial(demand.of(long), means(SINGLE)))) < 512


# What the kubelet's own rules pin, on a machine with room for everything.

ROOMY = node(*["cpu=64 mem=999Gi huge=999Gi huge2m=999Gi gpu=99 nic=99"] * 2, policy="best-effort")
DEVICE = Resources({GPU: 1})


def with_a_device(made: Pod) -> Pod:
    """The pod without pod-level resources, and with something that its policy applies to in any case."""
    first, *others = made.containers
    more = replace(first, requests=first.requests.most(DEVICE), limits=first.limits.most(DEVICE))
    return replace(made, containers=(more, *others), pod_requests=None, pod_limits=None)


def pins(requesting: Pod, placement: Placement) -> bool:
    """Whether each container that stays was given all CPUs and memory that it requests."""
    staying = [
        (container.requests.positive(), sum_of(grant.amounts.values()))
        for container, grant in zip(requesting.defaulted().containers, placement.grants, strict=True)
        if container.role is not Role.INIT
    ]
    return all(
        amounts.get(name, 0) == amount
        for requests, amounts in staying
        for name, amount in requests.items()
        if kind(name) in {Kind.CPU, Kind.MEMORY}
    )


def sum_of(bags: Iterable[Resources]) -> Resources:
    return reduce(Resources.plus, bags, EMPTY)


@given(drawn(fleets.pod).map(with_a_device))
def test_no_warning_iff_all_lasting_containers_are_pinned(requesting: Pod) -> None:
    wanted = demand.of(requesting)
    admission = admit(ROOMY, wanted)
    assume(admission.refusal is None)
    pinned = pins(requesting, admission.placement)
    event("pinned" if pinned else "shared")
    assert (partial(wanted, means(SINGLE)) is None) is pinned
