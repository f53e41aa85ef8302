"""A pod of a template that was read before is not read again, and says the same."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.fleet.recent import MOST_BYTES
from numalign.rules.errors import Mistake
from numalign.rules.intent import UNRULED, Match, NamespaceRules, Policy
from tests.notation import table
from tests.webhook.conftest import POLICY, Raw, raw, with_spec
from webhook.readings import Readings
from webhook.subject import Broken, Said, said

SINGLE = "single-numa-node"
GUARANTEED = "cpu=4 mem=1Gi gpu=1"
SPEAKING = raw(GUARANTEED, policy=SINGLE)


def read(readings: Readings, made: object, rules: NamespaceRules = UNRULED) -> Said | None:
    return readings.said(made, rules, Match.SATISFIES)


def with_metadata(made: Raw, **metadata: object) -> Raw:
    return {**made, "metadata": {**made["metadata"], **metadata}}


def annotated(made: Raw, key: str, value: object) -> Raw:
    return with_metadata(made, annotations={**made["metadata"]["annotations"], key: value})


def owned(uid: str) -> list[Raw]:
    return [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"w-{uid}", "uid": uid, "controller": True}
    ]


OF_ONE_TEMPLATE = [
    ("its name",                    with_metadata(SPEAKING, name="web-7")),
    ("the stem of its name",        with_metadata(SPEAKING, generateName="web-x-")),
    ("its labels",                  with_metadata(SPEAKING, labels={"a": "b"})),
    ("an annotation of others",     annotated(SPEAKING, "checksum/config", "7")),
    ("what it runs",                with_spec(SPEAKING, volumes=[{"name": "token-x7"}], hostname="p")),
    ("what it wants of other pods", with_spec(SPEAKING, affinity={"podAffinity": {}})),
    ("its status",                  {**SPEAKING, "status": {"phase": "Pending"}}),
]  # fmt: skip


@pytest.mark.parametrize("other", table(OF_ONE_TEMPLATE))
def test_what_is_of_one_pod_alone_makes_no_other_template(other: Raw) -> None:
    readings = Readings()
    first = read(readings, with_spec(SPEAKING, affinity={}))

    assert read(readings, with_spec(other, affinity={})) is first
    assert len(readings) == 1


def test_owners_differ_by_what_they_are_and_not_by_which() -> None:
    readings = Readings()
    for uid in ("1", "2"):
        read(readings, with_metadata(SPEAKING, ownerReferences=owned(uid)))

    assert len(readings) == 1


OTHERS = [
    ("another amount",     raw("cpu=5 mem=1Gi gpu=1", policy=SINGLE)),
    ("another policy",     raw(GUARANTEED, policy="restricted")),
    ("another annotation", annotated(SPEAKING, "numalign.io/scope", "pod")),
    ("a node",             with_spec(SPEAKING, nodeName="n1")),
]  # fmt: skip


@pytest.mark.parametrize("other", table(OTHERS))
def test_what_says_something_else_is_read_by_itself(other: Raw) -> None:
    readings = Readings()

    assert read(readings, SPEAKING) == said(SPEAKING, UNRULED, Match.SATISFIES)
    assert read(readings, other) == said(other, UNRULED, Match.SATISFIES) != read(readings, SPEAKING)


def test_what_is_asked_of_a_namespace_is_heard() -> None:
    readings, silent = Readings(), raw(GUARANTEED)
    rules = NamespaceRules(default=Policy(SINGLE))

    asked = [read(readings, silent), read(readings, silent, rules), readings.said(silent, rules, Match.EQUAL)]

    assert asked[0] is None
    assert asked[1:] == [said(silent, rules, match) for match in (Match.SATISFIES, Match.EQUAL)]
    assert asked[1] != asked[2]


def test_questions_that_are_equal_are_one() -> None:
    readings = Readings()
    free, tied = read(readings, SPEAKING), read(readings, with_spec(SPEAKING, nodeName="n1"))

    assert free
    assert tied
    assert free.question is tied.question


BROKEN = [
    ("an amount",      raw("cpu=4", policy="tight")),
    ("a name",         with_metadata(SPEAKING, name=7)),
    ("an annotation",  annotated(SPEAKING, "someone/else", 7)),
    ("a spec",         {**SPEAKING, "spec": []}),
    ("everything",     with_spec(with_metadata(SPEAKING, generateName=[]), containers=[{}], nodeName={})),
]  # fmt: skip


def mistakes(readings: Readings, made: object) -> tuple[Mistake, ...]:
    with pytest.raises(Broken) as caught:
        read(readings, made)
    return caught.value.mistakes


@pytest.mark.parametrize("made", table(BROKEN))
def test_mistakes_are_told_again_and_again(made: Raw) -> None:
    readings = Readings()
    with pytest.raises(Broken) as caught:
        said(made, UNRULED, Match.SATISFIES)

    assert mistakes(readings, made) == mistakes(readings, made) == caught.value.mistakes


def test_no_more_is_remembered_than_may_be() -> None:
    readings = Readings(remembered=3)
    for number in range(9):
        read(readings, raw(f"cpu={number} mem=1Gi", policy=SINGLE))

    assert len(readings) == 3


def large(number: int) -> Raw:
    """A pod of a hundred containers, each with its own amounts and a name as long as nobody writes."""
    made = raw(*[GUARANTEED] * 100, policy=SINGLE)
    for at, container in enumerate(made["spec"]["containers"]):
        container["name"] = f"c-{at}-{number}-{'x' * 2000}"
    return made


def test_what_is_large_is_read_once_as_well() -> None:
    readings, made = Readings(), large(1)
    first = read(readings, made)

    assert first == said(made, UNRULED, Match.SATISFIES)
    assert read(readings, large(1)) is first


def test_what_is_remembered_is_bounded_in_bytes() -> None:
    readings = Readings()
    for number in range(80):
        read(readings, large(number))

    sizes = {name: (cache.bytes <= MOST_BYTES, len(cache)) for name, cache in readings.caches().items()}
    assert sizes.keys() == {"readings", "questions"}
    assert all(small and 10 < count < 80 for small, count in sizes.values()), sizes


SCRAPS = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(["", "c0", "2", "DaemonSet"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from([
                "name", "resources", "limits", "requests", "cpu", "kind", "apiVersion", "controller",
                "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms",
                "matchFields", "matchExpressions", "key", "operator", "values",
            ]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)  # fmt: skip

METADATA = st.fixed_dictionaries(
    {
        "annotations": st.just({POLICY: "restricted"})
        | st.dictionaries(st.sampled_from([POLICY, "x"]), SCRAPS)
        | SCRAPS
    },
    optional=dict.fromkeys(("name", "generateName", "namespace", "labels", "ownerReferences"), SCRAPS),
)
SPECS = st.fixed_dictionaries(
    {"containers": st.just(SPEAKING["spec"]["containers"]) | SCRAPS},
    optional=dict.fromkeys(("initContainers", "nodeName", "affinity", "overhead", "resources", "x"), SCRAPS),
)
PODS = st.fixed_dictionaries({"metadata": METADATA | SCRAPS, "spec": SPECS | SCRAPS}) | SCRAPS


def told(read: Any, *asked: Any) -> object:  # noqa: ANN401  whatever a reader is given
    try:
        return read(*asked)
    except Broken as error:
        return error.mistakes


@given(
    st.lists(PODS, min_size=1, max_size=4), st.sampled_from([UNRULED, NamespaceRules(warn=Policy(SINGLE))])
)
def test_whatever_is_written_says_what_it_says_to_one_who_has_read_nothing_yet(
    made: list[object], rules: NamespaceRules
) -> None:
    readings = Readings()
    for each in made * 2:
        pod = orjson.loads(orjson.dumps(each))
        assert told(readings.said, pod, rules, Match.SATISFIES) == told(said, each, rules, Match.SATISFIES)
