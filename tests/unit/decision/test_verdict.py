"""Who a refusal is about, and a verdict that cannot be mistaken for a yes."""

import pytest

from numalign.decision.verdict import Cause, Need, Refusal, Refuser, Verdict
from numalign.model.demand import WHOLE_POD
from numalign.model.intent import Policy
from numalign.model.node import Known
from numalign.model.placement import Placement
from numalign.model.pod import Role
from tests.worlds.notation import table


def refusal(cause: Cause, *needs: Need) -> Refusal:
    return Refusal(Refuser.INTENT, "reason", cause, Policy.SINGLE_NUMA_NODE, needs=needs)


CPUS = Need("cpu", 60_000, 2, 80_000)


SUBJECTS = [
    ("the pod as a whole", WHOLE_POD, Role.APP, "the pod"),
    ("a container by name", "main", Role.APP, 'container "main"'),
    ("an init container", "setup", Role.INIT, 'init container "setup"'),
    ("a sidecar", "proxy", Role.SIDECAR, 'sidecar "proxy"'),
]


@pytest.mark.parametrize(("container", "role", "subject"), table(SUBJECTS))
def test_refusal_names_its_subject(container: str, role: Role, subject: str) -> None:
    refused = Refusal(Refuser.KUBELET, "reason", Cause.NOT_TOGETHER, Policy.RESTRICTED, container, role)
    assert refused.subject == subject


YES = Verdict(None, permanent=False, placement=Placement(), known=Known.COUNTS)
NO = Verdict(refusal(Cause.NOT_TOGETHER, CPUS), permanent=True, placement=Placement(), known=Known.COUNTS)


@pytest.mark.parametrize("verdict", [YES, NO], ids=["yes", "no"])
def test_a_verdict_has_no_truth_value(verdict: Verdict) -> None:
    with pytest.raises(TypeError, match=r"ask for \.admitted"):
        bool(verdict)
