"""Volcano's extender protocol: what its own client sends, what is refused and how, what it reads."""

from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer import volcano_protocol as volcano
from scorer.extender_protocol import BadCall
from scorer.volcano_protocol import (
    Code,
    Task,
    Vote,
    read_predicate,
    read_preemptable,
    read_prioritize,
    read_task,
)
from tests.unit.scorer.wire import Raw, Read, anything, refusal
from tests.worlds.notation import table

RECORDED = Path(__file__).parent / "data" / "volcano-v1.10.0"

TASK: Raw = {"UID": "u-0", "Name": "web-0", "Namespace": "team", "NodeName": "", "Pod": {"spec": {}}}
READ = Task("u-0", "web-0", "team", {"spec": {}})


def recorded(verb: str) -> Raw:
    call: Raw = orjson.loads((RECORDED / f"{verb}.json").read_bytes())
    return call


# What Volcano's own client sends.


def test_predicate_reads_task_and_node_name() -> None:
    call = recorded("predicate")
    task, node = read_predicate(orjson.dumps(call))
    assert node == "node-b.example"
    assert task == Task("5b0a8c1e-0000-4000-8000-000000000010", "newcomer-0", "team", call["task"]["Pod"])


def test_evictees_are_returned_unchanged() -> None:
    call = recorded("preemptable")
    evictor, evictees = read_preemptable(orjson.dumps(call))
    answer = orjson.loads(volcano.answer_preemptable(Vote.PERMIT, evictees))
    assert evictor.name == "newcomer-1"
    assert [(task.name, task.node_name) for task in evictees] == [("resident-2", "node-b.example")]
    assert answer == {"status": 1, "victims": call["evictees"]}


# What else may come.


@pytest.mark.parametrize("empty", [None, []], ids=["null", "empty"])
def test_nothing_in_a_list_is_null_in_go(empty: object) -> None:
    assert read_prioritize(orjson.dumps({"task": TASK, "nodes": empty})) == (READ, ())
    assert read_preemptable(orjson.dumps({"evictor": TASK, "evictees": empty})) == (READ, ())


def test_a_task_can_do_without_namespace_and_node() -> None:
    kept = {key: TASK[key] for key in ("UID", "Name", "Pod")}
    assert read_task(orjson.dumps({"task": kept})) == Task("u-0", "web-0", "", {"spec": {}})


# Bad input.


@pytest.mark.parametrize(("task", "texts"), table([
    # what it is       the task                           what is said of it
    ("nothing",        {}, ["UID: is missing", "Name: is missing", "Pod: is missing"]),
    ("another kind",   {**TASK, "Pod": {"kind": "Job"}},  ['Pod.kind: must be Pod, not "Job"']),
    ("a node's list",  {**TASK, "NodeName": ["n"]},       ["NodeName: must be a string, not a list"]),
    ("nodeName",       {**TASK, "nodeName": "n"},         ["nodeName: must be spelled NodeName"]),
]))  # fmt: skip
@pytest.mark.parametrize(
    ("read", "call", "where"),
    [
        (read_predicate, lambda task: {"task": task, "node": {"Name": "n"}}, "task"),
        (read_prioritize, lambda task: {"task": task, "nodes": []}, "task"),
        (read_preemptable, lambda task: {"evictor": task, "evictees": []}, "evictor"),
        (read_preemptable, lambda task: {"evictor": TASK, "evictees": [TASK, task]}, "evictees[1]"),
        (read_task, lambda task: {"task": task}, "task"),
    ],
    ids=["predicate", "prioritize", "evictor", "evictee", "allocate"],
)
def test_a_task_that_is_none_is_unprocessable(
    read: Read, call: Callable[[object], Raw], where: str, task: object, texts: list[str]
) -> None:
    status, lines = refusal(read, call(task))
    assert status == HTTPStatus.UNPROCESSABLE_ENTITY
    assert sorted(lines) == sorted(f"{where}.{line}" for line in texts)


EVICTEES = {"evictor": TASK, "evictees": [TASK]}


@pytest.mark.parametrize(("read", "call", "texts"), table([
    # what it is           what reads it    the call                       what is said of it
    ("no node",            read_predicate,  {"task": TASK},                ["node: is missing"]),
    ("name",               read_predicate,  {"task": TASK, "node": {"name": "n"}},
     ["node.name: must be spelled Name", "node.Name: is missing"]),
    ("Task",               read_predicate,  {"Task": TASK, "node": {"Name": "n"}},
     ["task: is missing", "Task: must be spelled task"]),
    ("no nodes",           read_prioritize, {"task": TASK},                ["nodes: is missing"]),
    ("names of nodes",     read_prioritize, {"task": TASK, "nodes": ["n"]},
     ['nodes[0]: must be an object, not "n"']),
    ("no evictees",        read_preemptable, {"evictor": TASK},            ["evictees: is missing"]),
    ("a list of tasks",    read_task,       {"task": [TASK]},
     ["task: must be an object, not a list"]),
]))  # fmt: skip
def test_a_call_that_is_none_is_unprocessable(read: Read, call: Raw, texts: list[str]) -> None:
    status, lines = refusal(read, call)
    assert status == HTTPStatus.UNPROCESSABLE_ENTITY
    assert sorted(lines) == sorted(texts)


def test_evictee_too_deep_to_return_is_refused() -> None:
    nested = b'{"a":' * 500 + b"{}" + b"}" * 500
    call = orjson.dumps(EVICTEES).replace(b'"evictees":[{', b'"evictees":[{"Others":' + nested + b",")
    assert refusal(read_preemptable, call)[1] == ["evictees[0]: is nested too deeply"]


tasks = st.one_of(anything, st.dictionaries(st.sampled_from([*TASK]), anything), st.just(TASK))
keys = st.sampled_from(["task", "node", "nodes", "evictor", "evictees", "Task"])


@pytest.mark.parametrize("read", [read_predicate, read_prioritize, read_preemptable, read_task])
@given(call=st.dictionaries(keys, st.one_of(tasks, st.lists(tasks))))
def test_any_value_anywhere_is_read_or_refused(read: Read, call: Raw) -> None:
    try:
        outcome: object = read(orjson.dumps(call))
    except BadCall as refused:
        outcome = refused.mistakes
    assert outcome


# Answers.


@pytest.mark.parametrize(
    ("status", "code", "number"),
    [("", Code.FITS, 0), ("no zone", Code.BUSY, 2), ("no", Code.NEVER, 3), ("task: ", Code.BROKEN, 1)],
)
def test_a_node_fits_or_is_refused_for_now_or_for_good(status: str, code: Code, number: int) -> None:
    assert volcano.answer_predicate(status, code) == b'{"status":"%s","code":%d}' % (
        status.encode(),
        number,
    )


def test_scores_are_always_an_object() -> None:
    assert (
        volcano.answer_prioritize({"a": 75.0, "b": 0}) == b'{"nodeScore":{"a":75.0,"b":0},"errorMessage":""}'
    )
    assert volcano.answer_prioritize({}) == b'{"nodeScore":{},"errorMessage":""}'
    assert volcano.answer_prioritize({}, "no") == b'{"nodeScore":{},"errorMessage":"no"}'


@pytest.mark.parametrize(("vote", "status"), [(Vote.REJECT, -1), (Vote.ABSTAIN, 0), (Vote.PERMIT, 1)])
def test_only_a_permitting_vote_has_victims(vote: Vote, status: int) -> None:
    _, victims = read_preemptable(orjson.dumps(EVICTEES))
    assert orjson.loads(volcano.answer_preemptable(vote)) == {"status": status, "victims": []}
    if vote is not Vote.PERMIT:
        with pytest.raises(ValueError, match="1 victims cannot go with the vote"):
            volcano.answer_preemptable(vote, victims)


def test_task_answer_is_empty_or_an_error() -> None:
    assert volcano.answer_task() == b'{"errorMessage":""}'
    assert volcano.answer_task("task: is missing") == b'{"errorMessage":"task: is missing"}'


# Laws.


@given(st.lists(st.dictionaries(st.text(max_size=5).map("x{}".format), anything), max_size=3))
def test_any_evictee_is_returned_unchanged(extras: list[Raw]) -> None:
    sent = [{**extra, **TASK, "UID": str(at)} for at, extra in enumerate(extras)]
    _, evictees = read_preemptable(orjson.dumps({"evictor": TASK, "evictees": sent}))
    assert orjson.loads(volcano.answer_preemptable(Vote.PERMIT, evictees))["victims"] == sent
