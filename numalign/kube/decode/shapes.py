"""
Shapes as texts: in the ConfigMap that remembers them, and in the policy file that declares them.

Both have one form: the fields of a NodeResourceTopology, and the relevant fields of a Node and of its
kubelet's configuration.

    attributes: [{name: topologyManagerPolicy, value: single-numa-node}]
    zones: [{name: node-0, type: Node, resources: [{name: cpu, capacity: 32, allocatable: 30}]}]
    allocatable: {cpu: 60, nvidia.com/gpu: 8}         # of the node as a whole
    labels:
      pool: gpu                                       # each node has this label with this value
      rack: {values: [a, b], always: false}           # one of these values, and some nodes lack it
      kubernetes.io/hostname: {}                      # any value
    otherLabels: true                                 # there may be labels that are not listed
    taints: [{key: dedicated, value: gpu, effect: NoSchedule}]
    kubeletVersion: v1.34
    threadsPerCore: 2
    uncertain: [example.com/nic]                      # nothing is refused for where the node has these
    kubelet: {cpuManagerPolicy: static}               # fields of a KubeletConfiguration
    lastSeen: "2026-01-02T03:04:05Z"
    onlyNode: gpu-1                                   # no other node had this shape

The writer of the ConfigMap is not trusted: its data is measured before it is read, a mistake costs its own
entry, and the name of a shape is computed, never trusted.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain, islice
from types import MappingProxyType
from urllib.parse import quote

import orjson

from numalign.kube.decode import kubelet_config, label_syntax, nodes, nrt
from numalign.kube.decode.nodes import BadNode, NodeFacts
from numalign.kube.decode.parts import Part, named
from numalign.kube.kinds import Collection, Object
from numalign.model import resources
from numalign.model.attributes import Attributes
from numalign.model.errors import MOST_MISTAKES, Mistake
from numalign.model.node import CpuManager, Known, Node, managers
from numalign.model.options import STRATEGY, WEIGHTS, Options, TopologyOption
from numalign.model.sharing import shared
from numalign.runtime.nesting import why_not_json
from numalign.shapes import KnownShape, LabelValues, LeftOut, RememberedShapes, Shape, shape
from numalign.shapes.keeping import in_turn, left_out

KIND, NAME = "ConfigMap", "numalign-shapes"
LOSSES = "losses"
"""The key for since when nodes are degraded. No shape has this name."""

LEFT_OUT = "leftOut"
"""The key for what is known of shapes that are not kept. No shape has this name; every other key is one."""

MOST_BYTES = 768 * 1024
"""The limit that is written. An API server accepts a MiB, and others may need to add something there."""

MOST_BYTES_OF_SHAPE = 32 * 1024
"""The limit for one shape; one with longer labels is written without, so that it may have any."""

_BYTES_OF_LEFT_OUT = 8 * 1024
"""More than what is left out takes."""

MOST_BYTES_READ = 1024 * 1024

MOST_SHAPES = 2048
"""The limit in one ConfigMap, or in one file."""

MOST_LOSSES, MOST_BYTES_OF_LOSSES = 4096, 256 * 1024
"""The limits of losses; those of nodes that are degraded for longest are kept."""

FIELDS = (
    "name", "labels", "otherLabels", "taints", "allocatable", "attributes", "zones", "kubeletVersion",
    "threadsPerCore", "uncertain", "kubelet", "lastSeen",
)  # fmt: skip
_LABEL_FIELDS = ("values", "always")
_OTHERS = frozenset({LOSSES, LEFT_OUT})


def collection(namespace: str) -> Collection:
    """Return the ConfigMap in a namespace, as something to watch."""
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps"
    return Collection(KIND, "v1", path, MappingProxyType({"metadata": {"name": True}, "data": True}), NAME)


def encode(memory: RememberedShapes) -> dict[str, str]:
    """Return the data of the ConfigMap; the last shapes `in_turn` are left out if it exceeds the limit."""
    data: dict[str, str] = {}
    if memory.losses:
        lasting, free = dict[str, str](), MOST_BYTES_OF_LOSSES
        for name, since in sorted(memory.losses.items(), key=lambda loss: (loss[1], loss[0]))[:MOST_LOSSES]:
            free -= _size((name, _moment(since))) + len('"":"",')
            if free < 0:
                break
            lasting[name] = _moment(since)
        data[LOSSES] = _text(lasting)
    free = MOST_BYTES - _BYTES_OF_LEFT_OUT - sum(map(_size, data.items()))
    spare: list[KnownShape] = []
    for at, remembered in enumerate(in_turn(memory.shapes)):
        most = min(free, MOST_BYTES_OF_SHAPE) if at < MOST_SHAPES else 0
        # A shorter entry errs on the side of more nodes.
        open_shape = replace(remembered.shape, labels={}, other_labels=True)
        for each in (remembered, replace(remembered, shape=open_shape)):
            fields = {**_written(each), **_present({"onlyNode": each.only_node})}
            entry = each.shape.name, _text(fields)
            if _size(entry) <= most:
                free -= _size(entry)
                data.update([entry])
                break
        else:
            spare.append(remembered)
    if missing := left_out(spare, memory.left_out):
        listed = None if missing.devices is None else sorted(missing.devices)
        data[LEFT_OUT] = _text({"lastSeen": _moment(missing.seen), "devices": listed})
    return data


def decode(raw: object) -> tuple[RememberedShapes, tuple[Mistake, ...]]:
    """Return what a ConfigMap remembers, and all mistakes in it, each with its place; never raises."""
    config_map = Part(raw)
    data = config_map["data"]
    texts = {key: part.value for key, part in data.members()}
    size = sum(len(key) + len(text) for key, text in texts.items() if isinstance(text, str))
    if size > MOST_BYTES_READ:
        data.wrong(f"{size} characters are more than the {MOST_BYTES_READ} that are allowed")
    elif len(texts) > MOST_SHAPES + len(_OTHERS):
        data.wrong(f"{len(texts)} keys are more than the {MOST_SHAPES + len(_OTHERS)} that are allowed")
    entries = {} if data.value is None else {key: _parsed(key, text) for key, text in texts.items()}
    losses, missing = dict[str, float](), None
    if LOSSES in entries:
        times = islice(((name, float(part.time())) for name, part in entries[LOSSES].members()), MOST_LOSSES)
        losses = {name: since for name, since in times if since > 0}
    remembered = []
    for key, part in entries.items():
        if key in _OTHERS or part.value is None:
            continue
        last_seen = float(part["lastSeen"].time())
        read = _shape(part, other_labels=bool(part["otherLabels"].boolean()))
        only_node = part["onlyNode"].text()
        if read:
            remembered.append(KnownShape(read, seen=last_seen, only_node=only_node))
    if LEFT_OUT in entries:
        part = entries[LEFT_OUT]
        names = part["devices"]
        devices = None if names.value is None else frozenset(name.text() for name in names.elements())
        missing = LeftOut(float(part["lastSeen"].time()), devices)
    if config_map.mistakes or any(part.mistakes for key, part in entries.items() if key != LOSSES):
        # A shape that cannot be read is one all the same.
        missing = LeftOut(math.inf)
    mistakes = chain(config_map.mistakes, *(part.mistakes for part in entries.values()))
    return (
        RememberedShapes(tuple(remembered), MappingProxyType(losses), missing),
        tuple(islice(mistakes, MOST_MISTAKES)),
    )


def _text(value: object) -> str:
    return orjson.dumps(value).decode()


def _size(entry: tuple[str, str]) -> int:
    return sum(len(text.encode()) for text in entry)


def _parsed(key: str, text: object) -> Part:
    """Return the object in a text, with the place of its key; absent if there is none."""
    place = Part(text, key, Part({}, "data"))
    content = place.required_text()
    try:
        place.value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        if not place.mistakes:
            place.wrong(why_not_json(content, error))
    if place.value is not None and not isinstance(place.value, dict):
        place.wrong(f"must be an object, not {named(place.value)}")
    return place


def declared(listed: Part) -> tuple[Shape, ...]:
    """Return declared shapes, which may have other labels by default; mistakes are left in the part."""
    if isinstance(listed.value, list) and len(listed.value) > MOST_SHAPES:
        listed.wrong(f"{len(listed.value)} shapes are more than the {MOST_SHAPES} that are allowed")
    shapes_ = []
    for part in listed.objects():
        part.only(FIELDS)
        shapes_.append(_shape(part, other_labels=part["otherLabels"].boolean() is not False))
    return tuple(filter(None, shapes_))


def exported(shapes_: Iterable[KnownShape]) -> list[Object]:
    """Return shapes as `declared` reads them, with their names for readers."""
    return [
        {"name": known.shape.name, **_written(known), "otherLabels": known.shape.other_labels}
        for known in shapes_
    ]


def _shape(part: Part, *, other_labels: bool) -> Shape | None:
    """Return one shape; None, with a mistake noted, if anything is wrong with it."""
    before = len(part.mistakes)
    nrt.measure(part)
    if len(part.mistakes) > before:
        return None
    topology = nrt.described(part, shape.NAMELESS, nrt.WITHOUT_PODS)
    part.mistakes.extend(topology.odd)
    uncertain = frozenset(entry.required_text() for entry in part["uncertain"].elements())
    kubelet = part["kubelet"]
    configured = kubelet_config.configuration(kubelet, shape.NAMELESS) if kubelet.value is not None else None
    node_facts = NodeFacts(
        shape.NAMELESS,
        shared(part["allocatable"].amounts()) or None,
        minor=nodes.minor_version(part["kubeletVersion"]),
        threads=part["threadsPerCore"].integer(least=1),
        attributes=Attributes(taints=nodes.taints(part["taints"])),
    )
    listed = _labels(part["labels"])
    if len(part.mistakes) > before:
        return None
    try:
        node = nodes.join(
            replace(topology, uncertain=uncertain), node_facts=node_facts, configured=configured
        )
    except BadNode as error:
        part.mistakes.extend(mistake.under(kubelet.where) for mistake in error.configuration)
        return None
    return shape.shape(shape.bare(node), node.attributes.lasting, listed, other_labels=other_labels)


def _labels(listed: Part) -> Mapping[str, LabelValues]:
    labels = {}
    for key, part in listed.members():
        if isinstance(part.value, str):
            values = LabelValues(frozenset({part.value}))
        else:
            if not isinstance(part.value, dict):
                fields = " and ".join(_LABEL_FIELDS)
                part.wrong(f"must be a string, or an object with {fields}, not {named(part.value)}")
            part.only(_LABEL_FIELDS)
            always, known = part["always"].boolean(), part["values"]
            texts = None if known.value is None else frozenset(value.text() for value in known.elements())
            few = texts if texts is None or len(texts) <= shape.MOST_VALUES else None
            values = LabelValues(few, always is not False)
        labels[key] = values
        if impossible := label_syntax.impossible(key, values.known or ()):
            part.wrong(impossible)
    return labels


def _written(known_shape: KnownShape) -> Object:
    """Return all fields of a shape, in the order in which people read them."""
    written, node = known_shape.shape, known_shape.shape.node
    minor, seen = node.options.minor, known_shape.seen
    attributes = {
        "topologyManagerPolicy": node.policy.value,
        "topologyManagerScope": node.scope.value,
        "topologyManagerMaxNUMANodes": str(node.max_zones),
    }
    zones, names = [], {zone.id: zone.name for zone in node.every_zone}
    for zone in node.every_zone:
        listed = [
            {
                "name": name,
                "capacity": resources.render(name, amount),
                "allocatable": resources.render(name, zone.allocatable.get(name, 0)),
            }
            for name, amount in zone.capacity.items()
        ]
        costs = [{"name": names[zone_id], "value": cost} for zone_id, cost in zone.costs]
        written_costs = {"costs": costs} if costs else {}
        zones.append({"name": zone.name, "type": "Node", **written_costs, "resources": listed})
    labels: dict[str, object] = {}
    for key, values in sorted(written.labels.items()):
        if values.always and values.known is not None and len(values.known) == 1:
            labels[key] = next(iter(values.known))
        else:
            known = {} if values.known is None else {"values": sorted(values.known)}
            labels[key] = known if values.always else {**known, "always": False}
    fields: Object = {
        "attributes": [{"name": name, "value": value} for name, value in attributes.items()],
        "zones": zones,
        "allocatable": {name: resources.render(name, amount) for name, amount in (node.totals or {}).items()},
        "labels": labels,
        "otherLabels": written.other_labels,
        "taints": [
            _present({"key": taint.key, "value": taint.value, "effect": taint.effect})
            for taint in written.taints
        ],
        "kubeletVersion": None if minor is None else f"v1.{minor}",
        "threadsPerCore": node.threads,
        "uncertain": sorted(node.uncertain),
        "kubelet": _kubelet(node),
        "lastSeen": seen and _moment(seen),
    }
    return _present(fields)


def _present(fields: Mapping[str, object]) -> Object:
    return {name: value for name, value in fields.items() if value}


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _kubelet(node: Node) -> Object | None:
    options, plain = node.options, managers(node.zones) == (node.cpu_manager, node.memory_manager)
    if node.known is Known.COUNTS and plain and options == Options(minor=options.minor):
        return None
    settings = {
        **{option.value: str(option in options.topology).lower() for option in TopologyOption},
        STRATEGY: options.strategy.value,
        WEIGHTS: ",".join(f"{name}={weight}" for name, weight in options.weights),
    }
    set_options = {*map(str, options.topology), *options.unreleased}
    switched = {
        # Here options are read under every policy of the topology manager.
        "cpuManagerPolicyOptions": dict.fromkeys(sorted({*map(str, options.cpu), *options.unknown}), "true"),
        "topologyManagerPolicyOptions": {name: settings[name] for name in settings if name in set_options},
        "featureGates": {gate.value: True for gate in sorted(options.gates)},
    }
    # With uncertain CPUs the manager counts as off, and no kubelet starts with options of one that is off.
    cpu_manager = CpuManager.STATIC if options.cpu else node.cpu_manager
    managers_ = {"cpuManagerPolicy": cpu_manager.value, "memoryManagerPolicy": node.memory_manager.value}
    return {**managers_, **_present(switched)}
