"""
Events on a node, one JSON value per line.

Another program writes these lines and waits for the answers, and after a mistake the two would disagree about
the node. So unknown fields are mistakes, and an invalid line is rejected with all its mistakes. The format is
that of the recordings of a real kubelet's decisions.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TypeVar

import orjson

from numalign.kube.decode import machine_nodes, machines, nodes, nrt, pods
from numalign.kube.decode.kubelet_config import configuration
from numalign.kube.decode.nodes import BadNode, NodeFacts
from numalign.kube.decode.nrt import Topology
from numalign.kube.decode.parts import Part, named
from numalign.kubelet.observed_state import ObservedContainer
from numalign.model.demand import WHOLE_POD
from numalign.model.errors import BadInput, Mistake
from numalign.model.node import Node
from numalign.model.placement import ZoneSet
from numalign.model.pod import Pod
from numalign.model.resources import CPU, Resources, ZoneId
from numalign.runtime.nesting import why_not_json

Read = TypeVar("Read")

NODE_FIELDS = ("name", "nrt", "kubeletVersion", "kubeletConfig", "machine", "labels")
_OBSERVED_FIELDS = ("pod", "admitted", "containers", "shared", "free", "reason", "message", "known", "doubts")
_ZONE_SET = re.compile(r"([0-9]{1,4}(,[0-9]{1,4})*)?", re.ASCII)
CONTAINER_FIELDS = ("affinity", "preferred", "cpus", "amounts", "choices")


class BadLine(BadInput):
    """Raised when a line is not a valid event, or is impossible at this point."""


@dataclass(frozen=True, slots=True)
class Started:
    """A node that starts without pods."""

    node: Node


@dataclass(frozen=True, slots=True)
class Created:
    """A pod that the kubelet is to admit."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class Observed:
    """What a kubelet really did with a pod.

    `seen` is what its containers hold and, under `WHOLE_POD`, the pod-level resources that they share; None
    if the pod was rejected. `left` is what each set of zones has left after it, None if unknown.
    """

    pod: str
    seen: tuple[ObservedContainer, ...] | None
    left: Mapping[ZoneSet, Resources] | None = None


@dataclass(frozen=True, slots=True)
class Deleted:
    """A pod that is gone."""

    pod: str


NodeEvent = Started | Created | Observed | Deleted


def read(line: bytes) -> NodeEvent:
    """Return the event in a line; raise `BadLine` with every mistake."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadLine([Mistake("", why_not_json(line, error))]) from error
    part = Part(value)
    names = [name for name, _ in part.members()]
    part.only(_EVENTS)
    if not part.mistakes and len(names) != 1:
        what = f"has several events: {', '.join(names)}" if names else "has no event"
        part.wrong(f"{what}; a line has one of {', '.join(_EVENTS)}")
    part.raise_mistakes(BadLine)
    event = _EVENTS[names[0]](part[names[0]])
    part.raise_mistakes(BadLine)
    return event


def _started(part: Part) -> Started:
    _object(part, NODE_FIELDS)
    name, described, config = part["name"].required_text(), part["machine"], part["kubeletConfig"]
    by_machine, published = described.value is not None, part["nrt"]
    if not by_machine:
        published.required()
    topology = Topology(name, ())
    if published.value is not None and (decoded := _decoded(published, nrt.topology)):
        # What an exporter may get wrong for a while, the author of a file can correct.
        part.mistakes.extend(_under(published, decoded.odd))
        topology = replace(decoded, name=name)
    configured = None if config.value is None else configuration(config, name)
    minor, threads = nodes.minor_version(part["kubeletVersion"]), nodes.threads_per_core(part["labels"])
    facts = NodeFacts(name, minor=minor, threads=threads)
    join = partial(machine_nodes.join, machines.described(described)) if by_machine else nodes.join
    part.raise_mistakes(BadLine)
    try:
        return Started(join(topology, node_facts=facts, configured=configured))
    except BadNode as error:
        zones = described if by_machine else published
        raise BadLine([*_under(zones, error.zones), *_under(config, error.configuration)]) from error


def _under(part: Part, mistakes: Iterable[Mistake]) -> Iterator[Mistake]:
    return (mistake.under(part.where) for mistake in mistakes)


def _object(part: Part, fields: tuple[str, ...]) -> None:
    """Stop at a missing object: that each of its fields is missing says nothing more."""
    part.only(fields)
    if part.value is None:
        part.raise_mistakes(BadLine)


def _created(part: Part) -> Created:
    pod = _decoded(part, pods.pod)
    if pod and not pod.name:
        part["metadata"]["name"].wrong("is missing")
    return Created(pod or Pod(""))


def _decoded(part: Part, decode: Callable[[Mapping[str, object]], Read]) -> Read | None:
    """Return the result of a decoder of whole objects; None if the part is invalid."""
    if not isinstance(part.value, dict):
        part.wrong(f"must be an object, not {named(part.value)}")
        return None
    try:
        return decode(part.value)
    except BadInput as error:
        part.mistakes.extend(_under(part, error.mistakes))
        return None


def _observed(part: Part) -> Observed:
    _object(part, _OBSERVED_FIELDS)
    name, admitted = part["pod"].required_text(), part["admitted"].required().boolean()
    remaining, shared = part["free"], part["shared"]
    containers = []
    for container, entry in part["containers"].members():
        if not container:
            entry.wrong("has an empty name")
        containers.append(_container(container, entry))
    containers += [] if shared.value is None else [_container(WHOLE_POD, shared)]
    free = None if remaining.value is None else _by_zones(remaining)
    return Observed(name, tuple(containers) if admitted else None, free)


def _container(container: str, part: Part) -> ObservedContainer:
    part.only(CONTAINER_FIELDS)
    cpus, amounts = part["cpus"].cpu_list(), _by_zones(part["amounts"])
    # If a container's CPU IDs are not given, only their number is known.
    unknown = cpus is None and any(CPU in bag for bag in amounts.values())
    return ObservedContainer(container, None if unknown else cpus or 0, amounts)


def _by_zones(listed: Part) -> dict[ZoneSet, Resources]:
    """Return amounts by set of zones: integers in millicores, bytes and units."""
    by_zones: dict[ZoneSet, Resources] = {}
    for zones, part in listed.members():
        amounts = {name: entry.integer() for name, entry in part.members()}
        if not _ZONE_SET.fullmatch(zones):
            part.wrong("is not listed under zone ids separated by commas, such as 0,1")
            continue
        ids = sorted({ZoneId(int(zone)) for zone in zones.split(",") if zone})
        by_zones[tuple(ids)] = Resources({name: n for name, n in amounts.items() if n is not None})
    return by_zones


_EVENTS: Mapping[str, Callable[[Part], NodeEvent]] = MappingProxyType(
    {
        "node": _started,
        "create": _created,
        "observed": _observed,
        "delete": lambda part: Deleted(part.required_text()),
    }
)
