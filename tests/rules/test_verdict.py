"""Refusals in words, and a verdict that cannot be mistaken for a yes."""

import pytest

from numalign.rules.demand import WHOLE_POD
from numalign.rules.intent import Policy
from numalign.rules.placement import Placement
from numalign.rules.pod import Role
from numalign.rules.resources import ZoneId
from numalign.rules.topology import Known
from numalign.rules.verdict import Cause, Need, Refusal, Refuser, Shortage, Verdict
from tests.notation import GPU, table

GIB = 2**30


def refusal(cause: Cause, *needs: Need, detail: str = "") -> Refusal:
    return Refusal(Refuser.INTENT, "reason", cause, Policy.SINGLE_NUMA_NODE, needs=needs, detail=detail)


ONE_GPU = Need(GPU, 8, 1, 4)
TWO_GPU = Need(GPU, 8, 2, 7)
CPUS = Need("cpu", 60_000, 2, 80_000)
PLENTY = Need("memory", 10 * GIB, 1, 100 * GIB)

# What it shows, the refusal, its sentence.
SENTENCES = [
    ("one zone is too small",
     refusal(Cause.ZONES_TOO_SMALL, ONE_GPU, PLENTY),
     f"single-numa-node needs 8 {GPU} in one zone; the most any zone has is 4"),
    ("several zones are",
     refusal(Cause.ZONES_TOO_SMALL, TWO_GPU),
     f"single-numa-node needs 8 {GPU} in 2 zones; the most any 2 zones have is 7"),
    ("for several resources",
     refusal(Cause.ZONES_TOO_SMALL, ONE_GPU, Need("cpu", 2500, 1, 2000)),
     f"single-numa-node needs 8 {GPU} and 2500m cpu in one zone; the most any zone has is 4 and 2"),
    ("as many zones as each may have",
     refusal(Cause.ZONES_TOO_SMALL, ONE_GPU, Need("cpu", 9000, 2, 8000)),
     (f"single-numa-node needs 8 {GPU} in one zone; the most any zone has is 4 "
      "and 9 cpu in 2 zones; the most any 2 zones have is 8")),
    ("each wants its own number of zones",
     refusal(Cause.WIDTHS_DIFFER, CPUS, PLENTY),
     ("single-numa-node needs the same zones for all resources; "
      "60 cpu takes 2 zones and 10Gi memory takes one zone")),
    ("no zone has all of it",
     refusal(Cause.NOT_TOGETHER, PLENTY, Need(GPU, 1, 1, 1)),
     f"single-numa-node needs 10Gi memory and 1 {GPU} in one zone; no zone has all of it"),
    ("no set of zones has",
     refusal(Cause.NOT_TOGETHER, CPUS, TWO_GPU),
     f"single-numa-node needs 60 cpu and 8 {GPU} in 2 zones; no set of 2 zones has all of it"),
    ("the kubelet takes more zones than it must",
     refusal(Cause.SPREAD, CPUS),
     "single-numa-node needs 60 cpu in 2 zones; the kubelet would spread it further"),
    ("the node has too little",
     refusal(Cause.NODE_TOO_SMALL, Need("cpu", 60_000, 2, 32_000)),
     "asks for 60 cpu and the node has 32"),
    ("the node has none, among other things",
     refusal(Cause.NODE_TOO_SMALL, Need("cpu", 60_000, 2, 32_000), Need(GPU, 1, 2, 0)),
     f"asks for 60 cpu and the node has 32; asks for 1 {GPU} and the node has none"),
    ("the managers cannot give it out",
     refusal(Cause.NOT_ALLOCATED, PLENTY),
     "the kubelet cannot allocate 10Gi memory, and fails the pod under every policy"),
    ("half a core is not given out",
     refusal(Cause.NOT_WHOLE_CORES, Need("cpu", 3000, 2, 14_000), detail="2"),
     "the kubelet gives out whole cores, 2 CPUs each, and 3 cpu breaks one"),
    ("too few cores are whole",
     refusal(Cause.NOT_WHOLE_CORES, Need("cpu", 16_000, 2, 14_000)),
     "the kubelet gives out whole cores; 16 cpu is asked, and 14 is free in cores that are whole"),
    ("containers that share get nothing",
     refusal(Cause.NOTHING_TO_SHARE, Need("cpu", 3000, 2, 14_000), PLENTY),
     "containers with resources of their own leave no cpu and memory of the pod's to the others"),
    ("shared CPUs have no zone",
     refusal(Cause.NOT_EXCLUSIVE, Need("cpu", 0, 0, 0), Need("memory", 0, 0, 0), detail="it is Burstable"),
     "single-numa-node of cpu and memory cannot be kept: it is Burstable"),
    ("the kubelet does not align",
     refusal(Cause.NOT_ALIGNED, detail="the kubelet does not align cpu"),
     "single-numa-node cannot be kept where the kubelet does not align cpu"),
    ("the node has another policy",
     refusal(Cause.OTHER_POLICY, detail="restricted"),
     'single-numa-node must be the node\'s own policy, which is "restricted"'),
    ("it takes too long to say",
     refusal(Cause.NOT_ANSWERED, detail="16 zones"),
     "on 16 zones it takes too long to work out what becomes of the pod"),
]  # fmt: skip


@pytest.mark.parametrize(("refused", "sentence"), table(SENTENCES))
def test_a_refusal_in_one_sentence(refused: Refusal, sentence: str) -> None:
    assert str(refused) == sentence


def test_every_cause_has_its_sentence() -> None:
    assert {refused.cause for _, refused, _ in SENTENCES} == set(Cause)
    assert all(str(refusal(cause)) is not None for cause in Cause)


SUBJECTS = [
    ("the pod as a whole", WHOLE_POD, Role.APP, "the pod"),
    ("a container by name", "main", Role.APP, 'container "main"'),
    ("an init container", "setup", Role.INIT, 'init container "setup"'),
    ("a sidecar", "proxy", Role.SIDECAR, 'sidecar "proxy"'),
]


@pytest.mark.parametrize(("container", "role", "subject"), table(SUBJECTS))
def test_a_refusal_is_of(container: str, role: Role, subject: str) -> None:
    refused = Refusal(Refuser.KUBELET, "reason", Cause.NOT_TOGETHER, Policy.RESTRICTED, container, role)

    assert refused.subject == subject


SHORTAGES = [
    ("CPUs", Shortage(ZoneId(0), "node-0", "cpu", 4000, 1500), "node-0: cpu 4 asked, 1500m free"),
    ("memory", Shortage(ZoneId(3), "node-3", "memory", 4 * GIB, 0), "node-3: memory 4Gi asked, 0 free"),
    ("devices", Shortage(ZoneId(1), "node-1", GPU, 4, 3), f"node-1: {GPU} 4 asked, 3 free"),
]


@pytest.mark.parametrize(("shortage", "text"), table(SHORTAGES))
def test_a_shortage_in_words(shortage: Shortage, text: str) -> None:
    assert str(shortage) == text


YES = Verdict(None, permanent=False, placement=Placement(), known=Known.COUNTS)
NO = Verdict(refusal(Cause.NOT_TOGETHER, CPUS), permanent=True, placement=Placement(), known=Known.COUNTS)


def test_a_verdict_without_a_refusal_is_an_admission() -> None:
    assert YES.admitted
    assert not NO.admitted


@pytest.mark.parametrize("verdict", [YES, NO], ids=["yes", "no"])
def test_a_verdict_has_no_truth_value(verdict: Verdict) -> None:
    with pytest.raises(TypeError, match=r"ask for \.admitted"):
        bool(verdict)
