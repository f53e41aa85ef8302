"""
What the API server refuses in the resources of containers, for manifests that it has not seen yet.

Restates validateResourceRequirements and validateContainerResourceName of k8s.io/kubernetes
pkg/apis/core/validation. The webhook checks none of this, because the API server validates a pod before it
asks. A request above its limit, and an amount that is no quantity, are mistakes of `pods` already.
"""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from numalign.kube.decode.parts import Part
from numalign.kube.decode.pods import MOST_CONTAINERS
from numalign.model import quantity
from numalign.model.errors import BadQuantity, Mistake
from numalign.model.resources import CPU, MEMORY, MILLI
from numalign.model.spelling import closest_resource

_HUGE_PAGES = "hugepages-"
_PLAIN = (CPU, MEMORY, "ephemeral-storage")
_NATIVE = "kubernetes.io/"
"""The end of the domains of Kubernetes' own resources, which are no extended resources."""

_DOMAIN_PART, _NAME = "[a-z0-9]([-a-z0-9]*[a-z0-9])?", "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_EXTENDED = re.compile(rf"(?!requests\.)(?=[^/]{{1,244}}/){_DOMAIN_PART}(\.{_DOMAIN_PART})*/{_NAME}")
"""A domain and a name. A quota puts `requests.` before the domain, so it is shorter than others."""


def mistakes(pod: object, known: AbstractSet[str] = frozenset()) -> tuple[Mistake, ...]:
    """Return every mistake in the resources of a v1 Pod or template; `known` are names that may be meant."""
    part, names = Part(pod), (*_PLAIN, *sorted(known))
    for key in ("initContainers", "containers"):
        containers = part["spec"][key]
        if isinstance(containers.value, list) and len(containers.value) <= MOST_CONTAINERS:
            for container in containers.objects():
                _check(container["resources"], names)
    return tuple(part.mistakes)


def _check(bag: Part, known: Sequence[str]) -> None:
    requests, limits = dict(bag["requests"].members()), dict(bag["limits"].members())
    for name, part in (*requests.items(), *limits.items()):
        amount = _millis(part)
        if not _is_name(name):
            meant = closest_resource(name, known)
            hint = f'did you mean "{meant}"?' if meant else "write cpu, memory or a name like nvidia.com/gpu"
            part.wrong(f"is not a resource name to the API server; {hint}")
        elif name.startswith(_HUGE_PAGES) and not _is_multiple(amount, name.removeprefix(_HUGE_PAGES)):
            part.wrong(f"{part.value} is not a multiple of the page size")
        elif _is_whole(name) and amount and amount % MILLI:
            part.wrong(f"{part.value} is not a whole number: extended resources have no fractions")
    for name in filter(_is_whole, requests):
        kind = "huge pages" if name.startswith(_HUGE_PAGES) else "extended resources"
        if name not in limits:
            bag["limits"][name].wrong(f"required: {kind} cannot be overcommitted")
        elif _millis(requests[name]) != _millis(limits[name]):
            requests[name].wrong(f"differs from the limit: {kind} cannot be overcommitted")
    names = requests.keys() | limits.keys()
    if any(name.startswith(_HUGE_PAGES) for name in names) and names.isdisjoint((CPU, MEMORY)):
        bag.wrong("huge pages require cpu or memory beside them")


def _is_name(name: str) -> bool:
    if "/" not in name:
        return name in _PLAIN or name.startswith(_HUGE_PAGES)
    return _NATIVE in name or _EXTENDED.fullmatch(name) is not None


def _is_whole(name: str) -> bool:
    """Return whether a resource cannot be overcommitted: huge pages, and resources of other domains."""
    return name.startswith(_HUGE_PAGES) or ("/" in name and _NATIVE not in name)


def _is_multiple(amount: int | None, page: str) -> bool:
    """Return whether an amount in thousandths is a multiple of a page size; None counts as one."""
    try:
        size = quantity.units(page)
    except BadQuantity:
        return False
    return bool(size) and (amount is None or -(-amount // MILLI) % size == 0)


def _millis(part: Part) -> int | None:
    """Return an amount in thousandths; None if it is not a quantity."""
    try:
        return quantity.millis(repr(part.value) if isinstance(part.value, float) else part.value)
    except BadQuantity:
        return None
