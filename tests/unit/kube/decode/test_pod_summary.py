"""A summary of a pod is below the same levels as the pod."""

import itertools

from hypothesis import example, given
from hypothesis import strategies as st

from numalign.cache.admission import shortfalls
from numalign.cache.pod_question import PodQuestion
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.decode.pod_request import PodRequest, kept, summary
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.files.policy import ClusterPolicy
from numalign.ledger import claims
from numalign.model.intent import NamespaceRules, Policy
from tests.worlds.memory import weight
from tests.worlds.notation import node

READER = PodReader()
NAMES = ["cpu", "memory", "hugepages-2Mi", "x.io/a", "x.io/b", "y.io/a", "ephemeral-storage"]
VALUES = {
    "numalign.io/policy": ["none", "best-effort", "restricted", "no policy"],
    "numalign.io/resources": ["cpu", "x.io/*", "z.io/a", "x.io/a,memory", "*", "x.io/*, y.io/a", ",",
        "cpu,cpu"],
    "numalign.io/exclusive": ["zone", "no"],
    "numalign.io/scope": ["pod", "container"],
}  # fmt: skip
MOST_BYTES = 5_000
NODE = node("cpu=8 mem=16Gi x.io/a=4 x.io/b=4", "cpu=8 mem=16Gi y.io/a=4", policy=Policy.RESTRICTED)

amounts = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["0", "1", "2", "1500m"]), max_size=5)
annotations = st.fixed_dictionaries({}, optional={key: st.sampled_from(VALUES[key]) for key in VALUES})
levels = st.none() | st.sampled_from([*Policy])
rules = st.builds(NamespaceRules, default=levels, enforce=levels, warn=levels, audit=levels)
some = st.frozensets(st.sampled_from(NAMES[3:6]))


def containers(lists: list[dict[str, str]]) -> list[object]:
    return [
        {"name": f"c{at}", "resources": {"requests": each, "limits": each}} for at, each in enumerate(lists)
    ]


NOTHING_OF_IT = {"numalign.io/policy": "restricted", "numalign.io/resources": "z.io/a"}
ENFORCED = NamespaceRules(enforce=Policy.RESTRICTED)


@example([{"x.io/a": "1"}], NOTHING_OF_IT, ENFORCED, frozenset(), frozenset())
@given(st.lists(amounts, min_size=1, max_size=3), annotations, rules, some, some)
def test_a_summary_is_below_the_same_levels(
    lists: list[dict[str, str]],
    written: dict[str, str],
    ruled: NamespaceRules,
    unaligned: frozenset[str],
    unhinted: frozenset[str],
) -> None:
    request = READER.request(
        {"metadata": {"annotations": written}, "spec": {"containers": containers(lists)}}
    )
    policy = EffectivePolicy(ClusterPolicy(unaligned=unaligned), {"team": ruled}, {}, unhinted)
    brief = summary(request)
    assert (brief is None) is (request.demand is None)
    if brief:
        assert below(brief, policy) == below(request, policy)


def below(request: PodRequest, policy: EffectivePolicy) -> tuple[str, ...] | None:
    reading = READER.read(request, "team", policy)
    return shortfalls(reading) if isinstance(reading, PodQuestion) else None


@given(st.lists(amounts, min_size=1, max_size=4), st.integers(0, 3))
def test_the_most_that_a_pod_gets_on_a_node_is_its_sum(lists: list[dict[str, str]], inits: int) -> None:
    many = [{"name": f"more-{'x' * 500}-{at}"} for at in range(90)]
    pod = {
        "spec": {
            "initContainers": containers(lists)[:inits],
            "containers": [*containers(lists)[inits:], *many],
        }
    }
    request = READER.request(pod)
    brief = kept(request)
    assert request.demand
    assert brief.demand is None
    assert brief.most
    assert claims.due(NODE, brief.most).all == claims.due(NODE, request.demand).all


def test_a_summary_of_a_large_pod_is_small() -> None:
    many = [
        {"name": f"c{at}", "resources": {"limits": {"cpu": str(at), f"x.io/{at % 8}": "1"}}}
        for at in range(1, 61)
    ]
    long = ",".join(itertools.chain(["x.io/*"], (f"{'n' * 250}.io/{at}" for at in range(60))))
    annotations = {"numalign.io/policy": "no policy" * 1000, "numalign.io/resources": long}
    request = READER.request({"metadata": {"annotations": annotations}, "spec": {"containers": many}})
    brief = summary(request)
    assert brief
    assert weight(brief) < MOST_BYTES < weight(request) / 10
