"""
Which labels a node that does not exist yet shares with the present nodes of its kind.

An autoscaler adds nodes of a kind in other places, on other machines and with newer software. So labels that
say where a node is, which machine it is, how it is paid for or what is installed there say nothing about the
next node; and labels that an agent sets once a node has joined may still be missing. All others are a pool's
own. A label that is taken for one of the first by mistake costs a denial, the other way a pod.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from numalign.model.constraints import Constraints, Requirement, Term
from numalign.model.intent import NODE_LABEL

_VARIED = re.compile(
    r"(?<![a-z0-9])("
    # Where it is: topology.kubernetes.io/zone, network.topology.nvidia.com/leaf, example.com/rack.
    r"topology|zones?|region|az|domain|datacenter|dc|location|site|hall|room|aisle|row|racks?|cabinet|chassis"
    r"|switch|blocks?|rail|tor|spine|leaf|subnet|clique|placement"
    # Which one it is: kubernetes.io/hostname.
    r"|host|hostname|id|ip|uid|uuid|serial"
    # How it is paid for: node.kubernetes.io/instance-type, eks.amazonaws.com/capacityType.
    r"|instance|machine|sku|capacity|capacitytype|spot|preemptible|provisioning|lifecycle|reservation"
    r"|scalesetpriority"
    # What is installed: feature.node.kubernetes.io/kernel-version.full, nvidia.com/mig.config.state.
    r"|kernel|driver|runtime|image|release|version|revision|timestamp|state"
    r")(?![a-z0-9])"
)

_SET_LATER = re.compile(
    r"(^|\.)("
    # Node Feature Discovery, operators of devices, our controller, and what no kubelet may set itself.
    r"(feature|profile)\.node\.kubernetes\.io|nvidia\.com|amd\.com|intel\.com|habana\.ai"
    r"|numalign\.io|node-restriction\.kubernetes\.io"
    r")/"
)

_LONGEST_KEY = 317
"""The limit of characters in the key of a label, of which no pod can make us remember more."""

_REMEMBERED_KEYS = 4096


def varied(key: str) -> bool:
    """Return whether the next node of a kind may have another value of this label, by words in its key."""
    return key == NODE_LABEL or _varied(key[:_LONGEST_KEY])


def set_later(key: str) -> bool:
    """Return whether this label may still come to nodes of a kind that lack it, by its domain."""
    return _set_later(key[:_LONGEST_KEY])


@lru_cache(maxsize=_REMEMBERED_KEYS)
def _varied(key: str) -> bool:
    # Words begin with a capital in capacityType, and everywhere in Rack.
    return _VARIED.search(_CAPITAL.sub("-", key).lower()) is not None


@lru_cache(maxsize=_REMEMBERED_KEYS)
def _set_later(key: str) -> bool:
    return _SET_LATER.search(key) is not None


_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def loosened(constraints: Constraints) -> Constraints:
    """Return the constraints without what a new node may meet although the present ones like it do not."""
    terms = constraints.terms
    if terms is not None:
        terms = tuple(Term(_lasting(term.expressions)) for term in terms if term.expressions or term.fields)
        if any(not term.expressions for term in terms):
            terms = None
    return replace(constraints, selector=_lasting(constraints.selector), terms=terms)


def _lasting(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    return tuple(each for each in requirements if not (varied(each.key) or set_later(each.key)))
