"""The extender protocol: what the scheduler's own client sends, what is refused and how, what it reads."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.scheduling.binding import BindingCall
from numalign.scheduling.node_answers import Filtered
from scorer import volcano_protocol as volcano
from scorer.extender_protocol import (
    MAX_SCORE,
    MOST_MISTAKES,
    BadCall,
    Calls,
    Candidates,
    Victims,
    answer_filter,
    answer_preemption,
    answer_scores,
    read_binding,
    read_preemption,
    read_rank,
)
from tests.unit.scorer.wire import Raw, Read, anything, refusal
from tests.worlds.notation import table

RECORDED = Path(__file__).parent / "data" / "kube-scheduler-v1.34.4"


def read_candidates(body: bytes) -> Candidates:
    """As one who has read nothing before."""
    return Calls().candidates(body)


READERS: Mapping[str, Read] = {
    "filter": read_candidates,
    "bind": read_binding,
    "preempt": read_preemption,
    "rank": read_rank,
}

ALL_READERS: Mapping[str, Read] = {
    **READERS,
    "volcano predicate": volcano.read_predicate,
    "volcano prioritize": volcano.read_prioritize,
    "volcano preemptable": volcano.read_preemptable,
    "volcano allocate": volcano.read_task,
}

of_both_protocols = pytest.mark.parametrize("read", ALL_READERS.values(), ids=ALL_READERS)
every_reader = pytest.mark.parametrize("read", READERS.values(), ids=READERS)

POD: Raw = {"metadata": {"name": "web-0", "namespace": "team", "uid": "u-0"}, "spec": {"containers": []}}
BINDING: Raw = {"PodName": "web-0", "PodNamespace": "team", "PodUID": "u-0", "Node": "n1"}


def recorded(call: str) -> bytes:
    return (RECORDED / f"{call}.json").read_bytes()


def named(*names: str) -> Candidates:
    return Candidates(POD, names)


def whole(*names: str) -> Candidates:
    items = [{"metadata": {"name": name}, "spec": {"podCIDR": f"of {name}"}} for name in names]
    return read_candidates(orjson.dumps({"Pod": POD, "Nodes": {"metadata": {}, "items": items}}))


# What the scheduler's own client sends.


def test_a_binding_is_read() -> None:
    uid = "5b0a8c1e-0000-4000-8000-000000000010"
    assert read_binding(recorded("bind")) == BindingCall("newcomer-0", "team", uid, "node-a.example")


@pytest.mark.parametrize("form", ["names", "nodes"])
def test_victims_are_read_in_both_forms(form: str) -> None:
    pod, _, victims = read_preemption(recorded(f"preempt-{form}"))
    prefix = "5b0a8c1e-0000-4000-8000-00000000000"
    assert pod["metadata"]["name"] == "newcomer-0"
    of_a, of_b = Victims((f"{prefix}0",), 1), Victims((f"{prefix}1",), 0)
    assert victims == {"node-a.example": of_a, "node-b.example": of_b}


# What else may come.


@pytest.mark.parametrize(("body", "expected"), table([
    # what it is             the call                                                    what is read
    ("no names",             orjson.dumps({"Pod": POD, "NodeNames": []}),                named()),
    ("a name twice",         orjson.dumps({"Pod": POD, "NodeNames": ["b", "a", "b"]}),   named("b", "a")),
    ("no nodes, as in Go",   orjson.dumps({"Pod": POD, "Nodes": {"items": None}}), Candidates(POD, (), {})),
    ("a pod without a name", b'{"Pod": {"spec": {}}, "NodeNames": []}',     Candidates({"spec": {}}, ())),
    ("a key twice",          b'{"Pod": {}, "NodeNames": ["a"], "NodeNames": ["b"]}', Candidates({}, ("b",))),
]))  # fmt: skip
def test_candidates_are_read_from(body: bytes, expected: Candidates) -> None:
    assert read_candidates(body) == expected


def test_victims_default_to_none_and_are_unique() -> None:
    twice = [{"UID": "b"}, {"UID": "a"}, {"UID": "b"}]
    pods = {"n1": None, "n2": [], "n3": twice}
    victims = {name: {"Pods": listed, "NumPDBViolations": 2} for name, listed in pods.items()}
    call = {"Pod": POD, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}
    none, one = Victims((), 2), Victims(("b", "a"), 2)
    assert read_preemption(orjson.dumps(call)) == (POD, 0, {"n1": none, "n2": none, "n3": one})


@pytest.mark.parametrize(("policy", "priority"), [("PreemptLowerPriority", -5), ("Never", None)])
def test_preemptor_priority_is_read_from_the_pod(policy: str, priority: int | None) -> None:
    call = {"Pod": {"spec": {"priority": -5, "preemptionPolicy": policy}}, "NodeNameToMetaVictims": {}}
    assert read_preemption(orjson.dumps(call))[1] == priority


@pytest.mark.parametrize(("call", "names"), table([
    # what it is           the call                              the names
    ("a pod and nodes",    {"pod": POD, "nodes": ["b", "a", "b"]}, ("b", "a")),
    ("a pod, null nodes",  {"pod": POD, "nodes": None},          None),
    ("as kubectl prints",  {**POD, "kind": "Pod"},               None),
]))  # fmt: skip
def test_people_ask_for_a_rank_among_some_nodes_or_all(call: Raw, names: tuple[str, ...] | None) -> None:
    assert read_rank(orjson.dumps(call)) == (call.get("pod", call), names)


# Bad input.


DEEP = r"the body is nested deeper than 100 levels"


@of_both_protocols
@pytest.mark.parametrize(("call", "text"), table([
    # what it is              the body                                 what is said of it
    ("half a document",       orjson.dumps({"Pod": POD})[:-1],         r"the body is not JSON: .*"),
    ("bytes, not UTF-8",      b'{"Pod": "\xff"}',                      r"the body is not JSON: .*"),
    ("a number beyond all",   b'{"Pod": 1e999}',                       r"the body is not JSON: .*"),
    ("deep brackets",         b"[" * 5000 + b"]" * 5000,               DEEP),
    ("10 MiB of brackets",    b"[" * (10 << 20),                       DEEP),
    ("nothing",               b"",                                     "the body is empty"),
    ("a list",                b"[]",                                   ".*not a list"),
    ("a text",                b'"A"',                                  '.*not "A"'),
]))  # fmt: skip
def test_other_than_an_object_is_a_bad_request(read: Read, call: bytes, text: str) -> None:
    status, [line] = refusal(read, call)
    assert status == HTTPStatus.BAD_REQUEST
    assert re.fullmatch(text, line)


NEITHER = "either NodeNames or Nodes must be set: neither is set"
BOTH = "either NodeNames or Nodes must be set: both are set"


def pod_is(pod: object) -> Raw:
    return {"Pod": pod, "NodeNames": []}


def names_are(names: object) -> Raw:
    return {"Pod": POD, "NodeNames": names}


def nodes_are(**nodes: object) -> Raw:
    return {"Pod": POD, "Nodes": nodes}


BAD_CANDIDATES: list[tuple[str, Raw, list[str]]] = [
    # what it is            the call                      what is said of it
    ("nothing",             {},                           ["Pod: is missing", NEITHER]),
    ("a list for Pod",      pod_is([]),                   ["Pod: must be an object, not a list"]),
    ("a number for a uid",  pod_is({"metadata": {"uid": 7}}),
     ["Pod.metadata.uid: must be a string, not a number"]),
    ("both forms",          {**names_are([]), **nodes_are(items=[])}, [BOTH]),
    ("an object for names", names_are({}),                ["NodeNames: must be a list, not an object"]),
    ("a number for a name", names_are(["n", 1]),          ["NodeNames[1]: must be a string, not a number"]),
    ("Nodes without items", nodes_are(),                  ["Nodes.items: is missing"]),
    ("Items, capitalised",  nodes_are(Items=[]),
     ["Nodes.Items: must be spelled items", "Nodes.items: is missing"]),
    ("a node, no name",     nodes_are(items=[{}]),        ["Nodes.items[0].metadata.name: is missing"]),
    ("nodenames",           {"Pod": {}, "nodenames": []}, [NEITHER, "nodenames: must be spelled NodeNames"]),
]  # fmt: skip


# What is sent again.


def in_go(pod: object, listed: object, *, end: bytes = b"") -> bytes:
    """A call with names as a scheduler writes it, and what else is written behind it."""
    return orjson.dumps({"Pod": pod, "Nodes": None, "NodeNames": listed}) + end


def test_a_pod_that_is_sent_again_is_the_very_same() -> None:
    calls, sent = Calls(), (POD, POD, {**POD, "kind": "Pod"})
    first, again, other = (calls.candidates(in_go(pod, ["n1"])).pod for pod in sent)
    assert (again is first, other is first) == (True, False)


def test_the_pods_that_were_read_last_are_remembered() -> None:
    calls, sent = Calls(remembered=2), [in_go({"metadata": {"uid": uid}}, []) for uid in "abc"]
    _, b, c = (calls.candidates(body).pod for body in sent)
    again = [calls.candidates(body).pod for body in sent[1:]]
    assert [again[0] is b, again[1] is c] == [True, True]


def test_large_pods_are_not_remembered() -> None:
    calls = Calls()
    for uid in "abc":
        calls.candidates(in_go({"metadata": {"uid": uid}, "spec": [[]] * 30_000}, []))
    assert len(calls.caches()["calls"]) == 0


NO_JSON = "the body is not JSON"


@pytest.mark.parametrize(("again", "lines_of"), table([
    # what it is              the second call                what is said of it
    ("a number for a name",   in_go(POD, ["n", 1]),
        ["NodeNames[1]: must be a string, not a number"]),
    ("nothing behind names",  in_go(POD, ["n"])[:-1],        [NO_JSON]),
    ("a call behind it",      in_go(POD, ["n"], end=b"{}"),  [NO_JSON]),
    ("a comma too many",      in_go(POD, ["n"])[:-2] + b",,]}", [NO_JSON]),
    ("a member in capitals",  in_go(POD, ["n"])[:-1] + b',"nodes":1}', ["nodes: must be spelled Nodes"]),
]))  # fmt: skip
def test_invalid_call_of_a_remembered_pod_is_refused(again: bytes, lines_of: list[str]) -> None:
    calls = Calls()
    calls.candidates(in_go(POD, ["n"]))
    assert [line.partition(": unexpected")[0] for line in refusal(calls.candidates, again)[1]] == lines_of


def test_a_pod_that_looks_like_a_call_is_no_call() -> None:
    """What stands before the last list of names is not the call, if that list is the pod's."""
    inner = in_go({}, ["inner"])
    calls, body = Calls(), b'{"NodeNames":["a"],"Pod":%s}'
    read = [calls.candidates(body % text) for text in (inner, inner, inner.replace(b"inner", b"other"))]
    assert [read_call.names for read_call in read] == [("a",)] * 3
    assert [read_call.pod["NodeNames"] for read_call in read] == [["inner"], ["inner"], ["other"]]
    assert refusal(calls.candidates, (body % inner)[:-1])[0] == HTTPStatus.BAD_REQUEST


NOT_ALLOWED = "has characters or a length that Kubernetes does not allow here"

BAD_BINDINGS: list[tuple[str, Raw, str]] = [
    # what it is          members of the call        what is said of it
    ("no uid",            {"PodUID": ""},            "PodUID: is empty"),
    ("a path",            {"PodName": "../secrets"}, f'PodName: "../secrets" {NOT_ALLOWED}'),
    ("a line",            {"PodName": "web-0\n"},    f'PodName: "web-0\ufffd" {NOT_ALLOWED}'),
    ("a name of 254",     {"Node": "n" * 254},       f'Node: "{"n" * 61}..." {NOT_ALLOWED}'),
]  # fmt: skip


def test_every_mistake_of_a_binding_is_listed() -> None:
    call = {"podName": "web-0", "PodNamespace": 1, "Node": "", "Host": "n1"}
    assert refusal(read_binding, call)[1] == [
        "PodName: is missing",
        "PodNamespace: must be a string, not a number",
        "PodUID: is missing",
        "Node: is empty",
        "podName: must be spelled PodName",
        "Host: is not a known field: expected one of PodName, PodNamespace, PodUID, Node",
    ]


WHOLE, META = "NodeNameToVictims", "NodeNameToMetaVictims"
NO_VICTIMS = f"either {WHOLE} or {META} must be set: neither is set"
TWO_FORMS = f"either {WHOLE} or {META} must be set: both are set"


def victims_are(**members: object) -> Raw:
    """The victims of a node n, for which the place N stands."""
    return {META: {"n": {"Pods": [], "NumPDBViolations": 0, **members}}}


BAD_PREEMPTIONS: list[tuple[str, Raw, list[str]]] = [
    # what it is            members of the call              what is said of it
    ("neither form",        {},                              [NO_VICTIMS]),
    ("both forms",          {WHOLE: {}, META: {}},           [TWO_FORMS]),
    ("null for victims",    {META: {"a.b": None}},           [f"{META}[a.b]: is missing"]),
    ("nobody and nothing",  {META: {"n": {}}},
     ["N.Pods: is missing", "N.NumPDBViolations: is missing"]),
    ("a pod without UID",   victims_are(Pods=[{}]),          ["N.Pods[0].UID: is missing"]),
    ("uid",                 victims_are(Pods=[{"uid": "u"}]),
     ["N.Pods[0].uid: must be spelled UID", "N.Pods[0].UID: is missing"]),
    ("a whole pod, no uid", {WHOLE: victims_are(Pods=[{}])[META]},
     [f"{WHOLE}.n.Pods[0].metadata.uid: is missing"]),
    ("fewer than none",     victims_are(NumPDBViolations=-1),
     ["N.NumPDBViolations: must be at least 0, not -1"]),
]  # fmt: skip


BAD_RANKS: list[tuple[str, Raw, list[str]]] = [
    # what it is         the call                              what is said of it
    ("a deployment",     {"kind": "Deployment", "spec": {}},   ['kind: must be Pod, not "Deployment"']),
    ("an untyped pod",   {"spec": {}},                         ["pod: is missing", "spec: UNKNOWN"]),
]  # fmt: skip


@pytest.mark.parametrize(("read", "call", "lines"), table([
    *((f"filter: {what}", read_candidates, call, lines) for what, call, lines in BAD_CANDIDATES),
    *((f"bind: {what}", read_binding, {**BINDING, **call}, [line]) for what, call, line in BAD_BINDINGS),
    *(
        (f"preempt: {what}", read_preemption, {"Pod": POD, **call}, lines)
        for what, call, lines in BAD_PREEMPTIONS
    ),
    *((f"rank: {what}", read_rank, call, lines) for what, call, lines in BAD_RANKS),
]))  # fmt: skip
def test_a_call_with_mistakes_is_unprocessable(read: Read, call: Raw, lines: list[str]) -> None:
    """In the tables N stands for the victims of the node n, and UNKNOWN for the end of a sentence."""
    status, listed = refusal(read, call)
    unknown = "is not a known field: expected one of pod, nodes"
    expected = [re.sub(r"^N(?=[.:])", f"{META}.n", line).replace("UNKNOWN", unknown) for line in lines]
    assert status == HTTPStatus.UNPROCESSABLE_ENTITY
    assert sorted(listed) == sorted("\n".join(expected).splitlines())


MANY = 20_000


@pytest.mark.parametrize(("read", "call"), table([
    ("names", read_candidates, {"Pod": {}, "NodeNames": [1] * MANY}),
    ("nodes", read_candidates, {"Pod": {}, "Nodes": {"items": [{}] * MANY}}),
    ("keys", read_candidates, {f"k{at}": 0 for at in range(MANY)}),
    ("victims", read_preemption, {"Pod": {}, META: {str(at): None for at in range(MANY)}}),
]))  # fmt: skip
def test_a_body_of_nothing_but_mistakes_gets_a_short_answer(read: Read, call: Raw) -> None:
    lines = refusal(read, call)[1]
    assert (len(lines), lines[-1]) == (MOST_MISTAKES + 1, "more mistakes are not shown")


LONG = "k" * 1_000_000


@pytest.mark.parametrize(
    ("read", "call"),
    [(read_candidates, {LONG: 0}), (read_preemption, {"Pod": {}, META: {LONG: {"Pods": [{}] * 50}}})],
    ids=["of the call", "of a node"],
)
def test_long_key_is_shortened_in_the_answer(read: Read, call: Raw) -> None:
    text = "\n".join(refusal(read, call)[1])
    assert (len(text) < 2000, "kkk..." in text) == (True, True)


def test_node_too_deep_to_return_is_refused() -> None:
    nested = b'{"a":' * 500 + b"{}" + b"}" * 500
    call = b'{"Pod": {}, "Nodes": {"items": [{"metadata": {"name": "n"}, "spec": %s}]}}' % nested
    assert refusal(read_candidates, call)[1] == ["Nodes.items[0]: is nested too deeply"]


keys = st.sampled_from(["Pod", "Nodes", "NodeNames", *BINDING, WHOLE, META, "pod", "nodes", "kind", "items"])


@every_reader
@given(call=st.dictionaries(keys, anything))
def test_any_value_anywhere_is_read_or_refused(read: Read, call: Raw) -> None:
    try:
        outcome: object = read(orjson.dumps(call))
    except BadCall as refused:
        outcome = refused.mistakes
    assert outcome


@of_both_protocols
@given(noise=st.binary())
def test_any_bytes_are_refused(read: Read, noise: bytes) -> None:
    assert refusal(read, noise)[1]


# Answers.


# Laws.


names = st.lists(st.text(min_size=1), max_size=20)


@given(names)
def test_names_are_unique_and_ordered_in_both_forms(sent: list[str]) -> None:
    call = read_candidates(orjson.dumps({"Pod": POD, "NodeNames": sent}))
    assert call.names == whole(*sent).names == tuple(dict.fromkeys(sent))


@given(st.lists(st.text(min_size=1), unique=True, max_size=20))
def test_filter_answers_in_the_form_of_the_call(sent: list[str]) -> None:
    fit, call = Filtered(sent[::2], dict.fromkeys(sent[1::2], "busy"), {}), whole(*sent)
    by_name, by_node = (orjson.loads(answer_filter(read_call, fit)) for read_call in (named(*sent), call))
    items = [orjson.loads((call.nodes or {})[name]) for name in sent[::2]]
    # Where no node is left a list is empty, and never null.
    assert (by_name["NodeNames"], by_name["Nodes"]) == (sent[::2], None)
    assert (by_node["NodeNames"], by_node["Nodes"]) == (None, {"metadata": {}, "items": items})


victims = st.builds(Victims, st.lists(st.text(min_size=1), unique=True).map(tuple), st.integers(0, 2**31 - 1))


@given(st.dictionaries(st.text(), victims))
def test_preempt_answer_can_be_read_as_a_call(kept: dict[str, Victims]) -> None:
    call = {"Pod": POD, **orjson.loads(answer_preemption(kept))}
    assert read_preemption(orjson.dumps(call))[2] == kept


sent_names = st.lists(st.one_of(st.text(), st.sampled_from(['"', "\\", ",", '","', "n", "é", "\x7f", "\n"])))


@given(st.data(), sent_names)
def test_scores_are_written_as_json(data: st.DataObject, sent: list[str]) -> None:
    scores = data.draw(st.lists(st.integers(0, MAX_SCORE), min_size=len(sent), max_size=len(sent)))
    hosts = [{"Host": name, "Score": score} for name, score in zip(sent, scores, strict=True)]
    assert answer_scores(sent, scores) == orjson.dumps(hosts)


pieces = st.sampled_from(
    [b"{", b"}", b"[", b"]", b",", b'"Pod":', b'{"Pod":{}', b'"Nodes":null', b'"NodeNames":', b'"a"',
     b',"Nodes":null,"NodeNames":[', b'"b"]}', b"]}", b"1", b"null", b"\\", b" "]
)  # fmt: skip
calls_sent = st.one_of(
    st.builds(in_go, st.sampled_from([POD, {}, {"a": [1]}, {"b": ',"Nodes":null'}]), sent_names),
    st.lists(pieces, max_size=8).map(b"".join),
)


@given(st.lists(calls_sent, max_size=6))
def test_remembered_pods_change_no_result(sent: list[bytes]) -> None:
    calls = Calls()
    for body in sent:
        assert outcome(calls, body) == outcome(Calls(), body)


def outcome(calls: Calls, body: bytes) -> object:
    try:
        return calls.candidates(body)
    except BadCall as refused:
        return refused.status, refused.mistakes


def test_pod_as_large_as_a_body_is_not_remembered() -> None:
    calls, body = Calls(), in_go({"spec": "s" * 2**17}, [])
    assert calls.candidates(body).pod is not calls.candidates(body).pod
