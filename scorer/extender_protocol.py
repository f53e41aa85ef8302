"""
Decode and encode the protocol of kube-scheduler's extenders (v1).

This is the only module of the scorer that handles the JSON of a scheduler; it makes no decisions. Keys are
Go's field names (`NodeNames`, `PodUID`). A different spelling is a mistake, although Go would accept it,
because ignoring a key silently would change the meaning of a call. Unknown keys are ignored, so that newer
schedulers are understood; only in a call with other mistakes they are reported as well.

A scheduler takes a filter response to mean no nodes if its form differs from that of the call, and gives up
the attempt if a name is returned that it did not send. So a response is built from its call. Of a duplicate
key the last one counts, as in Go.

Most calls have a pod that was just sent with other names, because prioritize follows filter. Such a call is
recognized by its bytes, and only the names are parsed; any other call is parsed in full.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

import orjson

from numalign.kube.decode.parts import UID, Part, named
from numalign.kube.pod_informer import LEAST_PRIORITY
from numalign.lru import LRU, Caches, digest
from numalign.model.errors import BadInput, Mistake
from numalign.runtime.nesting import why_not_json
from numalign.scheduling.binding import BindingCall
from numalign.scheduling.node_answers import Filtered

MAX_SCORE = 10
"""The best score of a node; 0 is the worst (MaxExtenderPriority, k8s.io/kube-scheduler/extender/v1)."""

MOST_MISTAKES = 32
"""Most mistakes that are reported for one call."""

REMEMBERED = 16
"""Pods that are recognized by their bytes: a scheduler handles one at a time, and there are few
schedulers."""

# One more is collected, to know whether there are more.
_ENOUGH = MOST_MISTAKES + 1

_LONGEST_PLACE = 512
_LONGEST_POD = 2**16
_LONGEST_NAME = 253


class BadCall(BadInput):
    """Raised when a call cannot be read; `status` is the HTTP status, which only people look at."""

    def __init__(
        self, mistakes: Iterable[Mistake], *, status: HTTPStatus = HTTPStatus.UNPROCESSABLE_ENTITY
    ) -> None:
        self.status = status
        super().__init__(mistakes)


@dataclass(frozen=True, slots=True)
class Candidates:
    """A pod, and the nodes to filter or to score for it.

    `names` are in the order of the call, each once. `nodes` is None if the scheduler sent only names;
    otherwise it has each node as received, in JSON. Of the pod's metadata, `name`, `namespace` and `uid` are
    strings if present, and nothing else of it has been checked.
    """

    pod: Mapping[str, Any]
    names: tuple[str, ...]
    nodes: Mapping[str, bytes] | None = None


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods that would be evicted from a node, and how many disruption budgets that violates."""

    uids: tuple[str, ...]
    violations: int


class Calls:
    """Reads filter and prioritize calls; remembers the last `remembered` pods."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._pods: LRU[bytes, Mapping[str, Any]] = LRU(remembered)

    def caches(self) -> Caches:
        """Return the caches of calls."""
        return {"calls": self._pods}

    def candidates(self, body: bytes) -> Candidates:
        """Return the call in a body; if only the names differ from an earlier call, only they are parsed.

        Raise `BadCall`.
        """
        # No string contains these bytes, because its quotes would be escaped. So if only a list and the end
        # of the call follow, everything before them is the call without that list.
        before, mark, after = body.rpartition(_BEFORE_NAMES)
        key = digest(before) if mark and len(before) <= _LONGEST_POD else None
        known = self._pods.peek(key) if key else None
        if known is not None and after.endswith(b"]}"):
            with contextlib.suppress(orjson.JSONDecodeError):
                listed = Part(orjson.loads(b"[" + after[:-1]))
                names = read_names(listed)
                if not listed.mistakes:
                    return Candidates(known, names)
        call = document(body, "ExtenderArgs")
        pod, listed, nodes = read_pod(call["Pod"]), call["NodeNames"], call["Nodes"]
        _one_of(call, listed, nodes)
        by_name = None
        if nodes.value is not None:
            items = objects(written(nodes, "items"))
            by_name = {node["metadata"]["name"].required_text(): as_json(node) for node in items}
        names = read_names(listed) if by_name is None else tuple(by_name)
        raise_mistakes(call, "Pod", "Nodes", "NodeNames")
        if key and after == orjson.dumps(listed.value)[1:] + b"}":
            self._pods.put(key, pod)
        return Candidates(pod, names, by_name)


def in_group(pod: Mapping[str, Any]) -> bool:
    """Return whether the pod in a call names a pod group."""
    return Part(pod)["spec"]["schedulingGroup"].value is not None


def read_binding(body: bytes) -> BindingCall:
    """Return which pod to bind where; raise `BadCall`, also for names that are invalid in Kubernetes."""
    call, texts = document(body, "ExtenderBindingArgs"), list[str]()
    for key, pattern in _BINDING.items():
        texts.append(text := call[key].required_text())
        if text and not pattern.fullmatch(text):
            call[key].wrong(f"{named(text)} has characters or a length that Kubernetes does not allow here")
    raise_mistakes(call, *_BINDING)
    return BindingCall(*texts)


def read_preemption(body: bytes) -> tuple[Mapping[str, Any], int | None, Mapping[str, Victims]]:
    """Return a pod, its priority, and the pods that would be evicted for it, by node.

    The priority is None if its `preemptionPolicy` forbids that pods are evicted for it. Raise `BadCall`, also
    for a victim without a UID.
    """
    call = document(body, "ExtenderPreemptionArgs")
    pod, spec = read_pod(call["Pod"]), call["Pod"]["spec"]
    priority = spec["priority"].integer(least=LEAST_PRIORITY) or 0
    never = spec["preemptionPolicy"].value == "Never"
    pods, uids = call["NodeNameToVictims"], call["NodeNameToMetaVictims"]
    _one_of(call, pods, uids)
    whole = uids.value is None
    by_node, victims = pods if whole else uids, dict[str, Victims]()
    fields = by_node.value if type(by_node.value) is dict else {}
    if by_node.value is not None and fields is not by_node.value:
        by_node.wrong(f"must be an object, not {named(by_node.value)}")
    for node in fields:
        part = by_node[node]
        if len(node) > _LONGEST_NAME:
            part.wrong(f"a node name has at most {_LONGEST_NAME} characters")
        else:
            victims[node] = _victims(part, whole=whole)
        if len(call.mistakes) >= _ENOUGH:
            break
    raise_mistakes(call, "Pod", "NodeNameToVictims", "NodeNameToMetaVictims")
    return pod, None if never else priority, victims


def read_rank(body: bytes) -> tuple[Mapping[str, Any], tuple[str, ...] | None]:
    """Return what to rank: `{"pod": v1.Pod, "nodes": ["n1"]}`, without `nodes`, or only the pod itself.

    Raise `BadCall`. This protocol is our own, so an unknown key is a mistake.
    """
    call = document(body, "a pod, or a pod and nodes")
    if call["kind"].value is not None:
        pod, names = read_pod(call), None
    else:
        pod, listed = read_pod(call["pod"]), call["nodes"]
        names = None if listed.value is None else read_names(listed)
        _unknown(call, ["pod", "nodes"])
    raise_mistakes(call)
    return pod, names


def answer_filter(call: Candidates, filtered: Filtered) -> bytes:
    """Return the response to filter; nodes in `fit` must be part of the call."""
    failed = {"FailedNodes": filtered.failed, "FailedAndUnresolvableNodes": filtered.unresolvable}
    if call.nodes is None:
        return orjson.dumps({**_FILTER_RESULT, **failed, "NodeNames": tuple(filtered.fit)})
    items = [orjson.Fragment(call.nodes[name]) for name in filtered.fit]
    return orjson.dumps({**_FILTER_RESULT, **failed, "Nodes": {"metadata": {}, "items": items}})


def answer_filter_error(error: str) -> bytes:
    """Return the response that ends the attempt to schedule the pod, with a reason; send it with HTTP 200."""
    return orjson.dumps({**_FILTER_RESULT, "Error": error})


def answer_scores(names: Sequence[str], scores: Sequence[int]) -> bytes:
    """Return the response to prioritize, with a score for each name.

    Raise `KeyError` for a score that is not 0 to 10, `ValueError` if there are more scores or fewer.
    """
    if not names:
        return b"[]"
    # There may be thousands, so the text between two names is prepared once for each score.
    parts = [""] * (2 * len(names))
    joined = "".join(names)
    # Nearly always they are the same in JSON.
    escaped = len(orjson.dumps(joined)) != len(joined) + len('""')
    parts[::2] = [orjson.dumps(name)[1:-1].decode() for name in names] if escaped else names
    parts[1::2] = [_BETWEEN[score] for score in scores]
    # Remove the start of a next entry after the last one.
    return f"[{_FIRST}{''.join(parts)[: -len(_NEXT)]}]".encode()


def answer_binding(error: str = "") -> bytes:
    """Return the response to bind: the pod is bound, or `error` says why it is scheduled again."""
    return orjson.dumps({"Error": error})


def answer_preemption(kept: Mapping[str, Victims]) -> bytes:
    """Return the response to preempt: the nodes where evicting these pods would help."""
    meta = {
        node: {"Pods": [{"UID": uid} for uid in victims.uids], "NumPDBViolations": victims.violations}
        for node, victims in kept.items()
    }
    return orjson.dumps({"NodeNameToMetaVictims": meta})


def document(body: bytes, what: str) -> Part:
    """Return the object in a body; raise `BadCall` if there is none, saying `what` it must be."""
    try:
        call = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        why = f"the body {why_not_json(body, error)}" if body else "the body is empty"
        raise BadCall([Mistake("", why)], status=HTTPStatus.BAD_REQUEST) from None
    if type(call) is not dict:
        why = f"the body must be a JSON object ({what}), not {named(call)}"
        raise BadCall([Mistake("", why)], status=HTTPStatus.BAD_REQUEST)
    return Part(call)


def read_pod(part: Part) -> Mapping[str, Any]:
    """Return a pod, of which only the metadata is checked."""
    pod = needed_object(part)
    if pod is None:
        return {}
    kind, metadata = part["kind"], part["metadata"]
    if kind.value not in (None, "Pod"):
        kind.wrong(f"must be Pod, not {named(kind.value)}")
    for key in ("name", "namespace", "uid"):
        metadata[key].text()
    return pod


def read_names(part: Part) -> tuple[str, ...]:
    """Return the strings of a list in order, each once. Without a `Part` for each: there may be thousands."""
    names = part.value
    if type(names) is list:
        with contextlib.suppress(TypeError):
            # Only strings can be joined.
            "".join(names)
            return tuple(names if len({*names}) == len(names) else dict.fromkeys(names))
    for name in part.elements():
        if type(name.value) is not str:
            name.required_text()
    return ()


def needed_object(part: Part) -> Mapping[str, Any] | None:
    """Return an object; None and a mistake if there is none."""
    value = part.value
    if isinstance(value, dict):
        return value
    part.wrong("is missing" if value is None else f"must be an object, not {named(value)}")
    return None


def objects(part: Part) -> Iterator[Part]:
    """Yield each object of a list."""
    return (entry for entry in part.elements() if needed_object(entry) is not None)


def raise_mistakes(call: Part, *keys: str) -> None:
    """Finish reading a call that may have these `keys`; raise `BadCall` with all mistakes."""
    spelled(call, *keys)
    if not call.mistakes:
        return
    if keys:
        _unknown(call, keys)
    # Keys may be as long as a body.
    mistakes = [
        mistake
        if len(mistake.where) <= _LONGEST_PLACE
        else replace(mistake, where=f"{mistake.where[:_LONGEST_PLACE]}...")
        for mistake in call.mistakes[:MOST_MISTAKES]
    ]
    if call.mistakes[MOST_MISTAKES:]:
        mistakes.append(Mistake("", "more mistakes are not shown"))
    raise BadCall(mistakes)


def spelled(part: Part, *keys: str) -> None:
    """Note the keys of an object that Go would accept as known ones in spite of their spelling."""
    lower = {key.lower(): key for key in keys}
    fields = part.value if type(part.value) is dict else {}
    for key in fields:
        if key not in keys and key.lower() in lower:
            part[key].wrong(f"must be spelled {lower[key.lower()]}")


def written(part: Part, key: str) -> Part:
    """Return a member that Go always writes, although it may be null."""
    spelled(part, key)
    member = part[key]
    if type(part.value) is dict and key not in part.value:
        member.wrong("is missing")
    return member


def as_json(part: Part) -> bytes:
    """Return a value as JSON, to be sent back; note a mistake if that is impossible."""
    try:
        return orjson.dumps(part.value)
    except orjson.JSONEncodeError:
        # Parsing allows deeper nesting than serializing.
        part.wrong("is nested too deeply")
        return b""


def _unknown(call: Part, keys: Sequence[str]) -> None:
    fields = call.value if type(call.value) is dict else {}
    unknown = [key for key in fields if key not in keys]
    wrong = {mistake.where for mistake in call.mistakes}
    for key in unknown[:_ENOUGH]:
        if call[key].where not in wrong:
            call[key].wrong(f"is not a known field: expected one of {', '.join(keys)}")


def _one_of(call: Part, one: Part, other: Part) -> None:
    """Note a mistake unless exactly one of two members is set; an empty one is set."""
    if (one.value is None) == (other.value is None):
        both = "both are set" if other.value is not None else "neither is set"
        call.mistakes.append(Mistake("", f"either {one.where} or {other.where} must be set: {both}"))


def _victims(part: Part, *, whole: bool) -> Victims:
    if needed_object(part) is None:
        return Victims((), 0)
    pods, violations = written(part, "Pods"), written(part, "NumPDBViolations")
    uids = dict[str, None]()
    for pod in objects(pods):
        if not whole:
            spelled(pod, "UID")
        uids[(pod["metadata"]["uid"] if whole else pod["UID"]).required_text()] = None
    return Victims(tuple(uids), violations.integer() or 0)


# A call with names as Go writes it: the pod, no nodes, and the names.
_BEFORE_NAMES = b',"Nodes":null,"NodeNames":['

_FIRST = '{"Host":"'
_NEXT = f",{_FIRST}"

_BETWEEN: Mapping[int, str] = MappingProxyType(
    {score: f'","Score":{score}}}{_NEXT}' for score in range(MAX_SCORE + 1)}
)
"""From the end of one name to the beginning of the next, by the score of the first."""

_FILTER_RESULT: Mapping[str, object] = MappingProxyType(
    {"Nodes": None, "NodeNames": None, "FailedNodes": {}, "FailedAndUnresolvableNodes": {}, "Error": ""}
)

# What the API server accepts as names (k8s.io/apimachinery, util/validation: DNS-1123 subdomain and label).
# They become part of an API path; a UID is only compared.
_SUBDOMAIN = re.compile(
    rf"(?=.{{1,{_LONGEST_NAME}}}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

_BINDING: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {"PodName": _SUBDOMAIN, "PodNamespace": _LABEL, "PodUID": UID, "Node": _SUBDOMAIN}
)
