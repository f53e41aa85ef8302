"""
The protocol of kube-scheduler's extenders (v1) on the wire, read and answered.

The one place where the scorer meets the JSON of a scheduler; nothing is judged here. Keys are the names that
Go has for them (`NodeNames`, `PodUID`). What is spelled otherwise is told, though Go would read it, since a
key that is passed over in silence makes a call that says something else. Keys that nobody knows are passed
over, so that newer schedulers are understood; only in a call that is wrong anyway they are told as well.

A scheduler takes a filter's answer for no nodes at all if it is not of the form in which it asked, and gives
up the attempt if a name comes back that it did not send. So an answer is made of the call that it answers.
Of a key that is there twice the last counts, as in Go.

Most calls carry a pod that was sent a moment ago with other names, for whoever filters prioritizes next. Such
a call is known by its bytes, and only the names are read; whatever is not exactly so is read in full.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson

from numalign.kube.decode.parts import UID, Part, named
from numalign.lru import LRU, Caches, digest
from numalign.model.errors import BadInput, Mistake
from numalign.scheduling.binding import BindingCall
from numalign.scheduling.node_answers import Filtered

MAX_SCORE = 10
"""The best score of a node; 0 is the worst (MaxExtenderPriority, k8s.io/kube-scheduler/extender/v1)."""

MOST_MISTAKES = 32
"""So many are told of one call."""

REMEMBERED = 16
"""Pods that are known by their bytes: a scheduler has one in its hands, and there are few schedulers."""

# One more is looked for, to know that there are more.
_ENOUGH = MOST_MISTAKES + 1

# Parsed, JSON takes up to so many times as much memory (lists in lists).
_PARSED = 60
_LONGEST_PLACE = 512
_LONGEST_POD = 2**17
_LONGEST_NAME = 253


class BadCall(BadInput):
    """Raised when a call cannot be read; `status` is for HTTP, which only people look at."""

    def __init__(
        self, mistakes: Iterable[Mistake], *, status: HTTPStatus = HTTPStatus.UNPROCESSABLE_ENTITY
    ) -> None:
        self.status = status
        super().__init__(mistakes)


@dataclass(frozen=True, slots=True)
class Candidates:
    """
    A pod, and the nodes to filter or to score for it.

    `names` are in the order of the call, each once. `nodes` is None where the scheduler sent names only;
    otherwise it has each node as it came, in JSON. Of the pod's metadata, `name`, `namespace` and `uid` are
    texts if they are there, and nothing else of it has been looked at.
    """

    pod: Mapping[str, Any]
    names: tuple[str, ...]
    nodes: Mapping[str, bytes] | None = None


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods that would be evicted from a node, and how many of their disruption budgets that violates."""

    uids: tuple[str, ...]
    violations: int


@dataclass(frozen=True, slots=True)
class PreemptionCall:
    """A pod, and who would be evicted for it, by node."""

    pod: Mapping[str, Any]
    victims: Mapping[str, Victims]


@dataclass(frozen=True, slots=True)
class RankCall:
    """A pod, and the nodes to rank for it in the order of the call, each once; None for all there are."""

    pod: Mapping[str, Any]
    names: tuple[str, ...] | None


class _ReadPod(NamedTuple):
    """A pod that was read, and how many bytes were."""

    pod: Mapping[str, Any]
    length: int


class Calls:
    """Reads what is asked by filter or prioritize; so many pods that were read last are `remembered`."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        # Each is read once or twice, and to weigh all its parts would take longer than to read them.
        self._pods: LRU[bytes, _ReadPod] = LRU(remembered, weigh=lambda _key, read: _PARSED * read.length)

    def caches(self) -> Caches:
        """What is remembered of calls."""
        return {"calls": self._pods}

    def candidates(self, body: bytes) -> Candidates:
        """The call in a body; of calls that are alike up to the names, all but the names is read once.

        Raises `BadCall`.
        """
        # No text holds these bytes, for its quotes would be escaped. So if nothing but a list and the end of
        # the call comes after them, all that is before them is the call without that list.
        before, mark, after = body.rpartition(_NAMES_COME)
        key = digest(before) if mark and len(before) <= _LONGEST_POD else None
        read = self._pods.peek(key) if key else None
        names = None if read is None else _names_alone(after)
        if read is not None and names is not None:
            return Candidates(read.pod, names)
        call = document(body, "ExtenderArgs")
        candidates, listed = _candidates(call), call["NodeNames"].value
        if key and after == orjson.dumps(listed)[1:] + b"}":
            self._pods.put(key, _ReadPod(candidates.pod, len(before)))
        return candidates


def _names_alone(written: bytes) -> tuple[str, ...] | None:
    """The names that a call ends with, their bracket open already; None if anything else comes."""
    if not written.endswith(b"]}"):
        return None
    try:
        listed = Part(orjson.loads(b"[" + written[:-1]))
    except orjson.JSONDecodeError:
        return None
    names = read_names(listed)
    return None if listed.mistakes else names


def _candidates(call: Part) -> Candidates:
    pod, listed, nodes = read_pod(call["Pod"]), call["NodeNames"], call["Nodes"]
    _one_of(call, listed, nodes)
    by_name = None if nodes.value is None else _nodes(nodes)
    names = read_names(listed) if by_name is None else tuple(by_name)
    settle(call, "Pod", "Nodes", "NodeNames")
    return Candidates(pod, names, by_name)


def read_binding(body: bytes) -> BindingCall:
    """Which pod to bind where; raises `BadCall`, also for names that nothing in Kubernetes can have."""
    call = document(body, "ExtenderBindingArgs")
    texts = [_matching(call[key], pattern) for key, pattern in _BINDING.items()]
    settle(call, *_BINDING)
    return BindingCall(*texts)


def read_preemption(body: bytes) -> PreemptionCall:
    """For which pod who would be evicted; raises `BadCall`, also for a victim without a UID."""
    call = document(body, "ExtenderPreemptionArgs")
    pod = read_pod(call["Pod"])
    pods, uids = call["NodeNameToVictims"], call["NodeNameToMetaVictims"]
    _one_of(call, pods, uids)
    whole = uids.value is None
    victims = {node: _victims(part, whole=whole) for node, part in _values(pods if whole else uids)}
    settle(call, "Pod", "NodeNameToVictims", "NodeNameToMetaVictims")
    return PreemptionCall(pod, victims)


def read_rank(body: bytes) -> RankCall:
    """
    What to rank: `{"pod": v1.Pod, "nodes": ["n1"]}`, where `nodes` may be left out, or only the pod itself.

    Raises `BadCall`. This protocol is our own, so that a key which nobody knows is a mistake.
    """
    call = document(body, "a pod, or a pod and nodes")
    if call["kind"].value is not None:
        pod, names = read_pod(call), None
    else:
        pod, listed = read_pod(call["pod"]), call["nodes"]
        names = None if listed.value is None else read_names(listed)
        _unknown(call, ["pod", "nodes"])
    settle(call)
    return RankCall(pod, names)


def answer_filter(call: Candidates, filtered: Filtered) -> bytes:
    """The body to answer filter with; what is `fit` must have been asked for."""
    fit = tuple(filtered.fit)
    items = None if call.nodes is None else [orjson.Fragment(call.nodes[name]) for name in fit]
    result = {
        "Nodes": None if items is None else {"metadata": {}, "items": items},
        "NodeNames": fit if items is None else None,
        "FailedNodes": filtered.failed,
        "FailedAndUnresolvableNodes": filtered.unresolvable,
    }
    return orjson.dumps({**_FILTER_RESULT, **result})


def answer_filter_error(error: str) -> bytes:
    """The body that ends the attempt to schedule the pod, and says why on it; goes with HTTP 200."""
    return orjson.dumps({**_FILTER_RESULT, "Error": error})


def answer_scores(names: Sequence[str], scores: Sequence[int]) -> bytes:
    """The body to answer prioritize with, a score for each name.

    Raises `KeyError` for a score that is none of 0 to 10, `ValueError` if there are more scores or fewer.
    """
    if not names:
        return b"[]"
    # There may be thousands, so what stands between two names is written once for each score.
    parts = [""] * (2 * len(names))
    parts[::2] = _quoted(names)
    parts[1::2] = [_BETWEEN[score] for score in scores]
    # After the last name another one begins, which does not come.
    return f"[{_FIRST}{''.join(parts)[: -len(_NEXT)]}]".encode()


def _quoted(names: Sequence[str]) -> Sequence[str]:
    """Names as they stand between quotes; nearly always as they are."""
    joined = "".join(names)
    if len(orjson.dumps(joined)) == len(joined) + len('""'):
        return names
    return [orjson.dumps(name)[1:-1].decode() for name in names]


def answer_binding(error: str = "") -> bytes:
    """The body to answer bind with: the pod is bound, or `error` says why not and it is scheduled anew."""
    return orjson.dumps({"Error": error})


def answer_preemption(kept: Mapping[str, Victims]) -> bytes:
    """The body to answer preempt with: the nodes where to evict these pods would help."""
    meta = {
        node: {"Pods": [{"UID": uid} for uid in victims.uids], "NumPDBViolations": victims.violations}
        for node, victims in kept.items()
    }
    return orjson.dumps({"NodeNameToMetaVictims": meta})


def document(body: bytes, what: str) -> Part:
    """The object that a body holds; raises `BadCall` if there is none, and then says `what` it must be."""
    try:
        call = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        why = f"the body is not JSON: {error}" if body else "the body is empty"
        raise BadCall([Mistake("", why)], status=HTTPStatus.BAD_REQUEST) from None
    if type(call) is not dict:
        why = f"the body must be a JSON object ({what}), not {named(call)}"
        raise BadCall([Mistake("", why)], status=HTTPStatus.BAD_REQUEST)
    return Part(call)


def read_pod(part: Part) -> Mapping[str, Any]:
    """A pod, of which only the metadata is looked at."""
    pod = needed_object(part)
    if pod is None:
        return _NOTHING
    kind, metadata = part["kind"], part["metadata"]
    if kind.value not in (None, "Pod"):
        kind.wrong(f"must be Pod, not {named(kind.value)}")
    for key in ("name", "namespace", "uid"):
        metadata[key].text()
    return pod


def read_names(part: Part) -> tuple[str, ...]:
    """The texts of a list in their order, each once. Without a `Part` for each: there may be thousands."""
    names = part.value
    if type(names) is list:
        with contextlib.suppress(TypeError):
            # Nothing but texts can be joined.
            "".join(names)
            return tuple(names if len({*names}) == len(names) else dict.fromkeys(names))
    for name in part.elements():
        if type(name.value) is not str:
            name.required_text()
    return ()


def needed_object(part: Part) -> Mapping[str, Any] | None:
    """An object; None and a mistake, if there is none."""
    value = part.value
    if isinstance(value, dict):
        return value
    part.wrong("is missing" if value is None else f"must be an object, not {named(value)}")
    return None


def objects(part: Part) -> Iterator[Part]:
    """Each object of a list."""
    return (entry for entry in part.elements() if needed_object(entry) is not None)


def settle(call: Part, *keys: str) -> None:
    """End the reading of a call that may have these `keys`; raises `BadCall` with all that is wrong."""
    spelled(call, *keys)
    if not call.mistakes:
        return
    if keys:
        _unknown(call, keys)
    mistakes = [replace(mistake, where=_cut(mistake.where)) for mistake in call.mistakes[:MOST_MISTAKES]]
    if call.mistakes[MOST_MISTAKES:]:
        mistakes.append(Mistake("", "more mistakes are not shown"))
    raise BadCall(mistakes)


def spelled(part: Part, *keys: str) -> None:
    """Note the keys of an object that Go would read as known ones, though nobody writes them so."""
    lower = {key.lower(): key for key in keys}
    fields = part.value if type(part.value) is dict else {}
    for key in fields:
        if key not in keys and key.lower() in lower:
            part[key].wrong(f"must be spelled {lower[key.lower()]}")


def written(part: Part, key: str) -> Part:
    """A member that Go always writes, though it may be null."""
    spelled(part, key)
    member = part[key]
    if type(part.value) is dict and key not in part.value:
        member.wrong("is missing")
    return member


def as_json(part: Part) -> bytes:
    """A value as it came, to be sent back; a mistake, if that cannot be."""
    try:
        return orjson.dumps(part.value)
    except orjson.JSONEncodeError:
        # Reading goes deeper than writing.
        part.wrong("is nested too deeply")
        return b""


def _unknown(call: Part, keys: Sequence[str]) -> None:
    fields = call.value if type(call.value) is dict else {}
    strange = [key for key in fields if key not in keys]
    wrong = {mistake.where for mistake in call.mistakes}
    for key in strange[:_ENOUGH]:
        if call[key].where not in wrong:
            call[key].wrong(f"is not a known field: expected one of {', '.join(keys)}")


def _cut(where: str) -> str:
    """A place that is not as long as a body, though keys may be."""
    return where if len(where) <= _LONGEST_PLACE else f"{where[:_LONGEST_PLACE]}..."


def _one_of(call: Part, one: Part, other: Part) -> None:
    """Note if not exactly one of two members is filled; an empty one is filled."""
    if (one.value is None) == (other.value is None):
        both = "both are set" if other.value is not None else "neither is set"
        call.mistakes.append(Mistake("", f"either {one.where} or {other.where} must be set: {both}"))


def _nodes(part: Part) -> Mapping[str, bytes]:
    """Each node of a list, by its name."""
    items = written(part, "items")
    return {node["metadata"]["name"].required_text(): as_json(node) for node in objects(items)}


def _values(part: Part) -> Iterator[tuple[str, Part]]:
    """Each member of an object; ends where enough is wrong."""
    fields = part.value if type(part.value) is dict else {}
    if part.value is not None and fields is not part.value:
        part.wrong(f"must be an object, not {named(part.value)}")
    for key in fields:
        if len(key) > _LONGEST_NAME:
            part[key].wrong(f"a node name has at most {_LONGEST_NAME} characters")
        else:
            yield key, part[key]
        if len(part.mistakes) >= _ENOUGH:
            return


def _victims(part: Part, *, whole: bool) -> Victims:
    if needed_object(part) is None:
        return Victims((), 0)
    pods, violations = written(part, "Pods"), written(part, "NumPDBViolations")
    uids = dict.fromkeys([_uid(pod, whole=whole) for pod in objects(pods)])
    return Victims(tuple(uids), violations.integer() or 0)


def _uid(pod: Part, *, whole: bool) -> str:
    if not whole:
        spelled(pod, "UID")
    return (pod["metadata"]["uid"] if whole else pod["UID"]).required_text()


def _matching(part: Part, pattern: re.Pattern[str]) -> str:
    text = part.required_text()
    if text and not pattern.fullmatch(text):
        part.wrong(f"{named(text)} has characters or a length that Kubernetes does not allow here")
    return text


# As Go writes a call with names: the pod, no nodes, and the names.
_NAMES_COME = b',"Nodes":null,"NodeNames":['

_NOTHING: Mapping[str, Any] = MappingProxyType({})

_FIRST = '{"Host":"'
_NEXT = f",{_FIRST}"

_BETWEEN: Mapping[int, str] = MappingProxyType(
    {score: f'","Score":{score}}}{_NEXT}' for score in range(MAX_SCORE + 1)}
)
"""From the end of one name to the beginning of the next, by the score of the first."""

_FILTER_RESULT: Mapping[str, object] = MappingProxyType(
    {"Nodes": None, "NodeNames": None, "FailedNodes": {}, "FailedAndUnresolvableNodes": {}, "Error": ""}
)

# What the API server takes for names (k8s.io/apimachinery, util/validation: DNS-1123 subdomain and label).
# They become a path of the API; a UID is only compared.
_SUBDOMAIN = re.compile(
    rf"(?=.{{1,{_LONGEST_NAME}}}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

_BINDING: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {"PodName": _SUBDOMAIN, "PodNamespace": _LABEL, "PodUID": UID, "Node": _SUBDOMAIN}
)
