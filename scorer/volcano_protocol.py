"""
Decode and encode the protocol of Volcano's extender plugin.

It differs from that of kube-scheduler: predicate is called for each task and node, and the bodies are
Volcano's own structures in full, a node with every pod on it and tens of megabytes for many nodes. Only
`Pod`, `UID`, `Name`, `Namespace` and `NodeName` of a task and `Name` of a node are read. (Sets of CPUs arrive
as `{}` in any case: what a node has free is known from elsewhere.)

Volcano treats everything but HTTP 200 as a broken extender, and then ignores it or gives up the node,
depending on its configuration; it does not read the body. So every response has status 200, also to a call
that cannot be read; each `answer` function describes its form. (pkg/scheduler/plugins/extender of
volcano-sh/volcano.)
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
    raise_mistakes,
    read_pod,
    spelled,
    written,
)


class Code(IntEnum):
    """What a refusal means to Volcano (pkg/scheduler/api/types.go)."""

    FITS = 0
    BROKEN = 1
    """The call cannot be answered: no pod is evicted, and nothing is known of the node."""
    BUSY = 2
    """Not now: other pods may be evicted for the task."""
    NEVER = 3
    """Not even if other pods are evicted."""


class Vote(IntEnum):
    """What happens to the tasks that might be evicted (pkg/scheduler/framework/session_plugins.go)."""

    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


@dataclass(frozen=True, slots=True)
class Task:
    """A pod in Volcano's terms. `uid` is the pod's own; `node_name` is "" until it has a node.

    `json` is the task as received, if it may have to be sent back.
    """

    uid: str
    name: str
    namespace: str
    pod: Mapping[str, Any]
    node_name: str = ""
    json: bytes = field(default=b"", repr=False)


def read_predicate(body: bytes) -> tuple[Task, str]:
    """Return a task and the name of the node that may run it; raise `BadCall`."""
    call = document(body, "PredicateRequest")
    task, node = _task(call["task"]), _node_name(call["node"])
    raise_mistakes(call, "task", "node")
    return task, node


def read_prioritize(body: bytes) -> tuple[Task, tuple[str, ...]]:
    """Return a task and the names of the nodes that may run it, in order, each once; raise `BadCall`."""
    call = document(body, "PrioritizeRequest")
    task = _task(call["task"])
    names = dict.fromkeys([_node_name(node) for node in objects(written(call, "nodes"))])
    raise_mistakes(call, "task", "nodes")
    return task, tuple(names)


def read_preemptable(body: bytes) -> tuple[Task, tuple[Task, ...]]:
    """Return the task that needs room, and those that might be evicted for it; raise `BadCall`."""
    call = document(body, "PreemptableRequest")
    evictor = _task(call["evictor"])
    evictees = tuple(replace(_task(task), json=as_json(task)) for task in objects(written(call, "evictees")))
    raise_mistakes(call, "evictor", "evictees")
    return evictor, evictees


def read_task(body: bytes) -> Task:
    """Return the task whose node was allocated or deallocated in this session; raise `BadCall`."""
    call = document(body, "EventHandlerRequest")
    task = _task(call["task"])
    raise_mistakes(call, "task")
    return task


def answer_predicate(status: str = "", code: Code = Code.FITS) -> bytes:
    """Return the response to predicate; a call that cannot be read is answered with the mistake and `BROKEN`.

    Volcano checks only whether there is a text: so raise `ValueError` for a text without a code or a code
    without a text.
    """
    if bool(status) != bool(code):
        raise ValueError(f"a refusal has a text and a code, and nothing else has one: {status!r}, {code!r}")
    return orjson.dumps({"status": status, "code": code})


def answer_prioritize(scores: Mapping[str, float], error: str = "") -> bytes:
    """Return the response to prioritize, whose scores Volcano adds to those of its other plugins.

    A call that cannot be read is answered without scores. With an `error`, Volcano drops the scores of all
    other plugins too. Raise `ValueError` for scores that are not numbers in JSON.
    """
    endless = [name for name, score in scores.items() if not math.isfinite(score)]
    if endless:
        raise ValueError(f"the scores of {endless} are no numbers")
    return orjson.dumps({"nodeScore": dict(scores), "errorMessage": error})


def answer_preemptable(vote: Vote, victims: Iterable[Task] = ()) -> bytes:
    """Return the response to preemptable; a call that cannot be read is answered with `ABSTAIN`.

    The victims are those of the evictees that may be evicted. Volcano treats all votes but `ABSTAIN` alike:
    the victims decide. So raise `ValueError` for victims with any vote but `PERMIT`.
    """
    tasks = [orjson.Fragment(victim.json) for victim in victims]
    if tasks and vote is not Vote.PERMIT:
        raise ValueError(f"{len(tasks)} victims cannot go with the vote {vote!r}")
    return orjson.dumps({"status": vote, "victims": tasks})


def answer_task(error: str = "") -> bytes:
    """Return the response to allocate and deallocate; `error` is also for a call that cannot be read."""
    return orjson.dumps({"errorMessage": error})


def _task(part: Part) -> Task:
    if needed_object(part) is None:
        return Task("", "", "", {})
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
