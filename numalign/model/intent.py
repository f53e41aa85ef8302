"""
What the owner of a workload requests by annotations, and a platform team by namespace labels.

The values are the kubelet's own four policies. Every mistake is reported at once, each with a caret under its
position, so that a manifest needs to be fixed only once.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from heapq import nsmallest
from types import MappingProxyType
from typing import TypeVar

from numalign.model.errors import BadIntent, Mistake, cut
from numalign.model.spelling import closest_word

PREFIX = "numalign.io/"
POLICY = PREFIX + "policy"
RESOURCES = PREFIX + "resources"
SCOPE = PREFIX + "scope"
EXCLUSIVE = PREFIX + "exclusive"
PLACEMENT = PREFIX + "placement"
PLACEMENT_OBSERVED = PREFIX + "placement-observed"
PINNED_AT = PREFIX + "pinned-at"
ALIGNED = PREFIX + "aligned"
ALIGNED_WHY = PREFIX + "aligned-why"
VOLCANO_POLICY = "volcano.sh/numa-topology-policy"

DEFAULT = PREFIX + "default"
ENFORCE = PREFIX + "enforce"
WARN = PREFIX + "warn"
AUDIT = PREFIX + "audit"
ADMISSION = PREFIX + "admission"
SCHEDULER = PREFIX + "scheduler"
GATE = PREFIX + "gate"
HEAL = PREFIX + "heal"
JOB_AFFINITY = PREFIX + "job-affinity"
DO_NOT_DISRUPT = PREFIX + "do-not-disrupt"
EXCLUSIVE_CPUS = PREFIX + "exclusive-cpus"

PLACEMENT_GATE = PLACEMENT
"""The scheduling gate of pods whose node the controller chooses."""

CLASS_LABEL = PREFIX + "class"
"""On nodes: the name of their topology class."""

NODE_LABEL = PREFIX + "node"
"""On nodes: their name, as `node_label` writes it."""

DECISIVE = (POLICY, VOLCANO_POLICY, RESOURCES)
"""The annotations by which a pod meets the level of its namespace, or does not."""

_WRITTEN_BY_OWNERS = (POLICY, RESOURCES, SCOPE, EXCLUSIVE)
WRITTEN_ABOUT_PODS = (PLACEMENT, PLACEMENT_OBSERVED, PINNED_AT, ALIGNED, ALIGNED_WHY)
"""Annotations that programs write on pods, which are not part of the owner's request."""

_ON_PODS = (*_WRITTEN_BY_OWNERS, *WRITTEN_ABOUT_PODS)
_ON_NAMESPACES = (
    *(DEFAULT, ENFORCE, WARN, AUDIT, ADMISSION),
    *(SCHEDULER, GATE, HEAL, JOB_AFFINITY, DO_NOT_DISRUPT, EXCLUSIVE_CPUS),
)

MOST_CPUS = 10**9
"""The limit of a limit of CPUs: more than any cluster has."""


MOST_NAMES = 64
"""The limit of resources in one annotation; a pod requests a handful."""

LONGEST_NAME = 317
"""The limit of characters in a resource name: a domain of 253, a slash and 63 (k8s.io/apimachinery,
IsQualifiedName)."""

_SCHEDULER = re.compile(r"(?=.{1,63}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_CPUS = re.compile(r"[0-9]{1,10}")
_GUESSED = 16
_SHOWN = 80


class Policy(StrEnum):
    """The kubelet's topology policies, on a node and on a pod alike, from loose to tight."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"

    def at_least(self, other: "Policy") -> bool:
        """Return whether this policy is the other one or a tighter one."""
        return _TIGHTNESS[self] >= _TIGHTNESS[other]


_TIGHTNESS = {policy: at for at, policy in enumerate(Policy)}


class Scope(StrEnum):
    """What is aligned as a unit: each container by itself, or the whole pod."""

    CONTAINER = "container"
    POD = "pod"


class Match(StrEnum):
    """How a node's policy must relate to the pod's: able to satisfy it, or equal to it."""

    SATISFIES = "satisfies"
    EQUAL = "equal"


class Exclusive(StrEnum):
    """What a pod does not share with any other pod that has an intent."""

    ZONE = "zone"


class Admission(StrEnum):
    """Whether numalign handles the pods of a namespace."""

    ENABLED = "enabled"
    DISABLED = "disabled"


class Gate(StrEnum):
    """Whether pods of a namespace that request alignment wait behind the scheduling gate `PLACEMENT_GATE`."""

    ENABLED = "enabled"
    DISABLED = "disabled"


class JobAffinity(StrEnum):
    """Whether unsuitable node classes are excluded in the pod templates of Jobs, too."""

    ENABLED = "enabled"
    DISABLED = "disabled"


class DoNotDisrupt(StrEnum):
    """Whether Karpenter is kept from evicting the pods whose policy a kubelet enforces."""

    ENABLED = "enabled"
    DISABLED = "disabled"


class Heal(StrEnum):
    """Which pods may be deleted, so that their owners recreate them; `running` includes `failed`."""

    NONE = "none"
    FAILED = "failed"
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class Intent:
    """What a pod requests of its placement.

    `resources` are names or prefixes ending in `*`; empty means all that the node aligns. `scope` None means
    the node's own scope. An `exclusive` pod shares its zones with no other pod that has an intent.
    """

    policy: Policy
    resources: tuple[str, ...] = ()
    scope: Scope | None = None
    match: Match = Match.SATISFIES
    exclusive: bool = False

    @property
    def binding(self) -> bool:
        """Whether the policy is `restricted` or tighter; every node satisfies `none` and `best-effort`."""
        return self.policy.at_least(Policy.RESTRICTED)

    def names(self, resource: str) -> bool:
        """Return whether a name or prefix in `resources` matches this resource."""
        return any(_covers(pattern, resource) for pattern in self.resources)

    def unmatched(self, requested: Collection[str]) -> Iterator[str]:
        """Yield the names and prefixes in `resources` that match none of these resources."""
        for pattern in self.resources:
            if not any(_covers(pattern, resource) for resource in requested):
                yield pattern

    def left_out(self, requested: Iterable[str]) -> list[str]:
        """Return those of these resources that no name or prefix in `resources` matches."""
        prefixes = tuple(pattern[:-1] for pattern in self.resources if pattern.endswith("*"))
        exact = frozenset(self.resources)
        return [name for name in requested if name not in exact and not name.startswith(prefixes)]

    def concerns(self, resource: str) -> bool:
        """Return whether the policy covers this resource: any, if `resources` is empty."""
        return not self.resources or self.names(resource)


@dataclass(frozen=True, slots=True)
class NamespaceRules:
    """The settings in a namespace's labels, None where a label is missing or cannot be read.

    The policies apply to its pods. `scheduler` places the pods that request alignment, `gate` is whether the
    controller does, `heal` is which pods it may delete, `job_affinity` is whether Jobs are changed, and
    `do_not_disrupt` whether Karpenter is kept from evicting its pods. Together, the pods of the namespace may
    hold at most `exclusive_cpus`, in whole CPUs.
    """

    default: Policy | None = None
    enforce: Policy | None = None
    warn: Policy | None = None
    audit: Policy | None = None
    disabled: bool = False
    scheduler: str | None = None
    gate: Gate | None = None
    heal: Heal | None = None
    job_affinity: bool = False
    do_not_disrupt: bool = False
    exclusive_cpus: int | None = None

    @property
    def has_policy(self) -> bool:
        """Whether any policy is stated."""
        return bool(self.default or self.enforce or self.warn or self.audit)


UNRULED = NamespaceRules()
"""The rules of a namespace without such labels."""


@dataclass(frozen=True, slots=True)
class IntentAnnotations:
    """The request in the annotations of one pod, whatever its namespace requests.

    `policy` is None if no annotation names one. `mistakes` are always wrong; those in `without_policy` only
    without a default policy, and those in `too_loose` only with a default policy that is not binding.
    """

    policy: Policy | None = None
    resources: tuple[str, ...] = ()
    scope: Scope | None = None
    exclusive: bool = False
    mistakes: tuple[Mistake, ...] = ()
    without_policy: tuple[Mistake, ...] = ()
    too_loose: tuple[Mistake, ...] = ()

    def wrong(self, default: Policy | None) -> tuple[Mistake, ...]:
        """Return every mistake under this default policy."""
        if default is None:
            return (*self.mistakes, *self.without_policy)
        return self.mistakes if default.at_least(Policy.RESTRICTED) else (*self.mistakes, *self.too_loose)

    def intent(self, default: Policy | None = None, match: Match = Match.SATISFIES) -> Intent | None:
        """Return the pod's intent; None if neither the pod nor the default names a policy.

        Raise `BadIntent` with every mistake.
        """
        if wrong := self.wrong(default):
            raise BadIntent(wrong)
        policy = self.policy or default
        return Intent(policy, self.resources, self.scope, match, self.exclusive) if policy else None


def read(annotations: Mapping[str, str]) -> IntentAnnotations:
    """Read a pod's annotations. Mistakes, unknown `numalign.io/` keys included, are returned, not raised."""
    mistakes = list(_unknown_keys(annotations, known=_ON_PODS, kind="annotations"))
    policy = _read_policy(annotations, mistakes)
    resources = tuple(_read_resources(annotations.get(RESOURCES), mistakes))
    scope = _read_enum(Scope, annotations, SCOPE, mistakes)
    exclusive = _read_enum(Exclusive, annotations, EXCLUSIVE, mistakes) is not None
    loose = tuple(_too_loose(policy)) if exclusive else ()
    # A policy that cannot be read is reported already.
    named = annotations.keys() & {POLICY, VOLCANO_POLICY}
    lost = () if named else tuple(_without_policy(annotations))
    return IntentAnnotations(
        policy,
        resources,
        scope,
        exclusive,
        (*mistakes, *(loose if policy else ())),
        lost,
        () if named else loose,
    )


def weakened(before: Mapping[str, str], after: Mapping[str, str], level: Policy) -> tuple[str, ...]:
    """Return the `DECISIVE` annotations whose change may take a pod below a level.

    A policy may become another one that meets the level. What is aligned may only become everything.
    """
    changed = (key for key in DECISIVE if before.get(key) != after.get(key))
    return tuple(key for key in changed if not _meets(key, after.get(key), level))


def _meets(key: str, text: str | None, level: Policy) -> bool:
    if key == RESOURCES:
        return text is None
    return text in _TIGHTNESS and Policy(text).at_least(level)


def parse_namespace(labels: Mapping[str, str]) -> tuple[NamespaceRules, tuple[Mistake, ...]]:
    """Return the settings in a namespace's labels, and the mistakes in them.

    An invalid label does not affect the others.
    """
    mistakes = list(_unknown_keys(labels, known=_ON_NAMESPACES, kind="labels"))
    default, enforce, warn, audit = (
        _read_enum(Policy, labels, key, mistakes, kind="labels") for key in (DEFAULT, ENFORCE, WARN, AUDIT)
    )
    admission = _read_enum(Admission, labels, ADMISSION, mistakes, kind="labels")
    rules = NamespaceRules(
        default,
        enforce,
        warn,
        audit,
        disabled=admission is Admission.DISABLED,
        scheduler=_read_scheduler(labels, mistakes),
        gate=_read_enum(Gate, labels, GATE, mistakes, kind="labels"),
        heal=_read_enum(Heal, labels, HEAL, mistakes, kind="labels"),
        job_affinity=_read_enum(JobAffinity, labels, JOB_AFFINITY, mistakes, kind="labels")
        is JobAffinity.ENABLED,
        do_not_disrupt=_read_enum(DoNotDisrupt, labels, DO_NOT_DISRUPT, mistakes, kind="labels")
        is DoNotDisrupt.ENABLED,
        exclusive_cpus=_read_cpus(labels, mistakes),
    )
    return rules, tuple(mistakes)


def not_a_scheduler(name: str) -> str | None:
    """Return why this cannot be the name of a scheduler; None if it can."""
    if _SCHEDULER.fullmatch(name):
        return None
    return f'"{cut(name, _SHOWN)}" is not a scheduler name, like numalign-scheduler'


def policy(text: str, *, where: str) -> Policy:
    """Return the policy of that name; raise `BadIntent`, with the closest name, if there is none."""
    try:
        return Policy(text.strip())
    except ValueError:
        raise BadIntent([_unknown_value(Policy, text, where=where)]) from None


# The words of other interfaces for the same policies.
_ALIASES = MappingProxyType(
    {
        "besteffort": "best-effort",
        "singlenumanode": "single-numa-node",
        "single": "single-numa-node",
        "single-numa": "single-numa-node",
        "single-zone": "single-numa-node",
        "strict": "single-numa-node",
        "preferred": "best-effort",
        "true": "restricted",
    }
)

EnumT = TypeVar("EnumT", bound=StrEnum)


def _covers(pattern: str, resource: str) -> bool:
    if pattern.endswith("*"):
        return resource.startswith(pattern[:-1])
    return resource == pattern


def _unknown_keys(written: Mapping[str, str], *, known: tuple[str, ...], kind: str) -> Iterator[Mistake]:
    unknown = (key for key in written if key.startswith(PREFIX) and key not in known)
    names = [name.removeprefix(PREFIX) for name in known]
    # A guess takes time, and no user reads the guesses of a thousand mistakes.
    for key in nsmallest(_GUESSED, unknown):
        close = closest_word(key.removeprefix(PREFIX), names)
        hint = f'; did you mean "{PREFIX}{close}"?' if close else f"; known keys: {', '.join(known)}"
        yield Mistake(f"metadata.{kind}[{key}]", f"unknown key{hint}")


def _read_scheduler(labels: Mapping[str, str], mistakes: list[Mistake]) -> str | None:
    name = labels.get(SCHEDULER, "").strip()
    if name and (wrong := not_a_scheduler(name)):
        mistakes.append(Mistake(f"metadata.labels[{SCHEDULER}]", wrong))
        return None
    return name or None


def _read_cpus(labels: Mapping[str, str], mistakes: list[Mistake]) -> int | None:
    text = labels.get(EXCLUSIVE_CPUS)
    if text is None:
        return None
    # An API server accepts labels of up to 63 characters, but files may contain longer ones.
    if _CPUS.fullmatch(text) and (cpus := int(text)) <= MOST_CPUS:
        return cpus
    wrong = (
        f'"{cut(text, _SHOWN)}" is not a whole number of CPUs up to {MOST_CPUS}, like 20: it limits nothing'
    )
    mistakes.append(Mistake(f"metadata.labels[{EXCLUSIVE_CPUS}]", wrong))
    return None


def _read_policy(annotations: Mapping[str, str], mistakes: list[Mistake]) -> Policy | None:
    ours = _read_enum(Policy, annotations, POLICY, mistakes)
    theirs = _read_enum(Policy, annotations, VOLCANO_POLICY, mistakes)
    if ours and theirs and ours != theirs:
        both = f'{POLICY} is "{ours}" and {VOLCANO_POLICY} is "{theirs}"'
        mistakes.append(Mistake(f"metadata.annotations[{POLICY}]", f"{both}: remove one, or make them equal"))
    return ours or theirs


def _read_enum(
    enum: type[EnumT],
    written: Mapping[str, str],
    key: str,
    mistakes: list[Mistake],
    *,
    kind: str = "annotations",
) -> EnumT | None:
    """Return one member of an enumeration; any other text adds a mistake."""
    text = written.get(key)
    if text is None:
        return None
    try:
        return enum(text.strip())
    except ValueError:
        mistakes.append(_unknown_value(enum, text, where=f"metadata.{kind}[{key}]"))
        return None


def _unknown_value(enum: type[EnumT], text: str, *, where: str) -> Mistake:
    known = [member.value for member in enum]
    asked = cut(text.strip(), _SHOWN)
    close = closest_word(_ALIASES.get(asked.lower(), asked.lower()), known)
    meant = f'did you mean "{close}"?' if close else f"expected one of {', '.join(known)}"
    return Mistake(
        where,
        f'"{asked}" is not a known value; {meant}',
        text,
        len(text) - len(text.lstrip()),
    )


def _read_resources(text: str | None, mistakes: list[Mistake]) -> Iterator[str]:
    """Yield names, or prefixes with a trailing star, from a comma-separated text, in order and each once."""
    if text is None:
        return
    where, at, seen = f"metadata.annotations[{RESOURCES}]", 0, set()
    if (commas := text.count(",")) >= MOST_NAMES:
        mistakes.append(Mistake(where, f"names {commas + 1} resources: at most {MOST_NAMES} are allowed"))
        return
    for part in text.split(","):
        name = part.strip()
        place = at + len(part) - len(part.lstrip())
        at += len(part) + 1
        wrong = _wrong_name(name) or ("named twice" if name in seen else None)
        if wrong:
            mistakes.append(Mistake(where, wrong, text, place))
        else:
            yield name
        seen.add(name)


def _wrong_name(name: str) -> str | None:
    if not name:
        return "an empty name: remove the comma or write a resource"
    if len(name) > LONGEST_NAME:
        return f'"{cut(name, _SHOWN)}" is longer than any resource name: at most {LONGEST_NAME} characters'
    if "*" in name[:-1]:
        return f'"{name}": * is allowed only at the end, like rdma/*'
    if any(not (letter.isascii() and (letter.isalnum() or letter in "-_./*")) for letter in name):
        return f'"{name}" is not a resource name, like cpu, memory or nvidia.com/gpu'
    return None


def _without_policy(annotations: Mapping[str, str]) -> Iterator[Mistake]:
    """Yield a mistake for each annotation that has no effect without a policy."""
    for key in (RESOURCES, SCOPE, EXCLUSIVE):
        if key in annotations:
            needs = f"has no effect without {POLICY}: add it ({', '.join(Policy)})"
            yield Mistake(f"metadata.annotations[{key}]", needs)


def _too_loose(policy: Policy | None) -> Iterator[Mistake]:
    """Yield a mistake if the policy is too loose for exclusive zones: it has to say which zones."""
    if policy is None or not policy.at_least(Policy.RESTRICTED):
        under = f'"{policy}"' if policy else "the namespace's default"
        ways = f"set {POLICY} to {Policy.RESTRICTED} or {Policy.SINGLE_NUMA_NODE}, or remove it"
        yield Mistake(f"metadata.annotations[{EXCLUSIVE}]", f"has no effect with {under}: {ways}")
