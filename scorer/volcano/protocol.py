"""
The protocol of Volcano's extender plugin on the wire, read and answered.

Nothing like kube-scheduler's: predicate is called for each task and node, and the bodies are Volcano's own
structures in full, a node with every pod on it and tens of megabytes where many nodes are sent. Little of
that is anybody's business here, so only `Pod`, `UID`, `Name`, `Namespace` and `NodeName` of a task and `Name`
of a node are read. (Sets of CPUs arrive as `{}` in any case: what a node has free is known from elsewhere.)

Volcano takes everything but HTTP 200 for a broken extender, and then goes on without it or gives the node
up, as it is configured; the body is not read. So whatever is to be said is said with 200, a refusal to
read the call too: how, stands with each answer. (pkg/scheduler/plugins/extender of volcano-sh/volcano.)
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import orjson

from numalign.kube.decode.parts import Part
from scorer.extender_protocol import (
    as_json,
    document,
    needed_object,
    objects,
    read_pod,
    settle,
    spelled,
    written,
)


class Code(IntEnum):
    """What a refusal means to Volcano (pkg/scheduler/api/types.go)."""

    FITS = 0
    BROKEN = 1
    """The call cannot be answered: nobody is evicted, nothing is known of the node."""
    BUSY = 2
    """Not now: others may be evicted for the task."""
    NEVER = 3
    """Not even if others are evicted."""


class Vote(IntEnum):
    """What becomes of the tasks that might be evicted (pkg/scheduler/framework/session_plugins.go)."""

    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


@dataclass(frozen=True, slots=True)
class Task:
    """
    A pod as Volcano knows it. `uid` is the pod's own; `node_name` is empty as long as it has no node.

    `json` is the task as it came, where it may have to be sent back.
    """

    uid: str
    name: str
    namespace: str
    pod: Mapping[str, Any]
    node_name: str = ""
    json: bytes = field(default=b"", repr=False)


def read_predicate(body: bytes) -> tuple[Task, str]:
    """A task and the name of the node that may run it; raises `BadCall`."""
    call = document(body, "PredicateRequest")
    task, node = _task(call["task"]), _node_name(call["node"])
    settle(call, "task", "node")
    return task, node


def read_prioritize(body: bytes) -> tuple[Task, tuple[str, ...]]:
    """A task and the names of the nodes that may run it, in their order, each once; raises `BadCall`."""
    call = document(body, "PrioritizeRequest")
    task = _task(call["task"])
    names = dict.fromkeys([_node_name(node) for node in objects(written(call, "nodes"))])
    settle(call, "task", "nodes")
    return task, tuple(names)


def read_preemptable(body: bytes) -> tuple[Task, tuple[Task, ...]]:
    """The task that needs room, and those that might be evicted for it; raises `BadCall`."""
    call = document(body, "PreemptableRequest")
    evictor = _task(call["evictor"])
    evictees = tuple(replace(_task(task), json=as_json(task)) for task in objects(written(call, "evictees")))
    settle(call, "evictor", "evictees")
    return evictor, evictees


def read_task(body: bytes) -> Task:
    """The task that was given a node, or had one, in this round of scheduling; raises `BadCall`."""
    call = document(body, "EventHandlerRequest")
    task = _task(call["task"])
    settle(call, "task")
    return task


def answer_predicate(status: str = "", code: Code = Code.FITS) -> bytes:
    """
    The body to answer predicate with; a call that cannot be read is answered with the mistake and `BROKEN`.

    Volcano asks only whether there is a text, so that `ValueError` is raised for a text without a code or a
    code without a text.
    """
    if bool(status) != bool(code):
        raise ValueError(f"a refusal has a text and a code, and nothing else has one: {status!r}, {code!r}")
    return orjson.dumps({"status": status, "code": code})


def answer_prioritize(scores: Mapping[str, float], error: str = "") -> bytes:
    """
    The body to answer prioritize with, added by Volcano as it is to the points of its other plugins.

    A call that cannot be read is answered without scores. With an `error` Volcano drops the points of all
    other plugins too. `ValueError` for what is no number in JSON.
    """
    endless = [name for name, score in scores.items() if not math.isfinite(score)]
    if endless:
        raise ValueError(f"the scores of {endless} are no numbers")
    return orjson.dumps({"nodeScore": dict(scores), "errorMessage": error})


def answer_preemptable(vote: Vote, victims: Iterable[Task] = ()) -> bytes:
    """
    The body to answer preemptable with; a call that cannot be read is answered with `ABSTAIN`.

    The victims are those of the evictees that may go. To Volcano one vote is as good as the other, if only
    it is not `ABSTAIN`: victims decide. So `ValueError` is raised for victims with any vote but `PERMIT`.
    """
    tasks = [orjson.Fragment(victim.json) for victim in victims]
    if tasks and vote is not Vote.PERMIT:
        raise ValueError(f"{len(tasks)} victims cannot go with the vote {vote!r}")
    return orjson.dumps({"status": vote, "victims": tasks})


def answer_task(error: str = "") -> bytes:
    """The body to answer allocate and deallocate with; `error` tells also of a call that cannot be read."""
    return orjson.dumps({"errorMessage": error})


def _task(part: Part) -> Task:
    if needed_object(part) is None:
        return _NO_TASK
    spelled(part, "UID", "Name", "Namespace", "NodeName", "Pod")
    return Task(
        uid=part["UID"].required_text(),
        name=part["Name"].required_text(),
        namespace=part["Namespace"].text(),
        pod=read_pod(part["Pod"]),
        node_name=part["NodeName"].text(),
    )


def _node_name(part: Part) -> str:
    if needed_object(part) is None:
        return ""
    spelled(part, "Name")
    return part["Name"].required_text()


_NO_TASK = Task("", "", "", {})
