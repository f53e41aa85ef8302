"""
The policy of a platform team for the whole cluster.

It has defaults for namespaces, exemptions, kinds of workloads, what is refused, and which nodes may come. It
is a file that people edit. An error must not be applied in part: a file with any mistake is rejected as a
whole, and every mistake is reported.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from numalign.cache.admission import Reaction, Refusals, RequestReaction
from numalign.kube.decode import label_syntax, shapes, templates
from numalign.kube.decode.parts import EnumT, Part
from numalign.kube.decode.templates import GroupKind, TemplatePath, TemplatePaths
from numalign.kube.files import edited
from numalign.kube.files.edited import only, requirements
from numalign.model import intent
from numalign.model.constraints import Requirement
from numalign.model.errors import BadInput
from numalign.model.intent import UNRULED, Gate, Heal, NamespaceRules, Policy, not_a_scheduler
from numalign.shapes import Declared, GrowablePools, Pool, Shape
from numalign.shapes.growable_pools import BUILT_IN

NAME_LABEL = "kubernetes.io/metadata.name"
"""The label of every namespace with its name, set by the API server."""

LEVELS = ("default", "enforce", "warn", "audit")
"""The policies that a rule can set, by the fields of `NamespaceRules`."""

RULES = (*LEVELS, "scheduler", "gate", "heal")
"""The fields that a rule can set for namespaces whose own labels do not, by those of `NamespaceRules`."""

EXCLUSIVE_CPUS = "exclusiveCPUs"
"""The field of a rule that limits a namespace, whatever its own labels are."""


class BadPolicy(BadInput):
    """Raised when a policy file cannot be used, with every mistake in it."""


@dataclass(frozen=True, slots=True)
class Default:
    """Rules for namespaces that meet all requirements, as far as their own labels set none."""

    requirements: tuple[Requirement, ...]
    rules: NamespaceRules

    def concerns(self, labels: Mapping[str, str]) -> bool:
        """Return whether it applies to a namespace with these labels."""
        return all(requirement.holds(labels) for requirement in self.requirements)

    def to_json(self) -> dict[str, object]:
        """Return the rule as JSON: the selector in a line, and what it sets."""
        levels = {name: level for name in RULES if (level := getattr(self.rules, name))}
        cpus = self.rules.exclusive_cpus
        limit = {} if cpus is None else {EXCLUSIVE_CPUS: cpus}
        return {"namespaces": ", ".join(map(str, self.requirements)), **levels, **limit}


@dataclass(frozen=True, slots=True)
class Exemptions:
    """The pods that are never patched, warned about or refused; a user may be a prefix that ends in `*`."""

    users: tuple[str, ...] = ()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ClusterPolicy:
    """The content of a policy file.

    `templates` are additional kinds of workloads. `never` is the reaction to pods that no shape of nodes
    could take, `unknown_resources` to those that request what no shape ever listed. Nodes of the declared
    `shapes` can come at any time. `taints` is the reaction to pods whose tolerations contradict their
    requests, `partial` to those whose policy applies to only a part of these, `over_quota` to those with
    which a namespace would have more exclusive CPUs than it may. `pools` says which labels name pools of
    nodes that may grow other shapes, and which pools may not.
    No device plugin serves the `unaligned` resources, whatever topologies list.
    """

    defaults: tuple[Default, ...] = ()
    exemptions: Exemptions = Exemptions()
    templates: TemplatePaths = field(default_factory=dict)
    never: Reaction = Reaction.DENY
    unknown_resources: Reaction = Reaction.WARN
    taints: RequestReaction = RequestReaction.WARN
    partial: RequestReaction = RequestReaction.WARN
    over_quota: RequestReaction = RequestReaction.WARN
    shapes: tuple[Shape, ...] = ()
    pools: GrowablePools = BUILT_IN
    unaligned: frozenset[str] = frozenset()

    @property
    def declared(self) -> Declared:
        """What it says of nodes."""
        return Declared(self.shapes, self.pools)

    def rules_for(self, own: NamespaceRules, labels: Mapping[str, str], namespace: str) -> NamespaceRules:
        """Return the rules of a namespace: from its own labels, else from the first default with them.

        Its own labels cannot raise the limit of exclusive CPUs that the first default with one sets.
        """
        if not self.defaults:
            return own
        all_labels = {NAME_LABEL: namespace, **labels}
        rules, limit = own, None
        for default in self.defaults:
            if not default.concerns(all_labels):
                continue
            if not own.disabled:
                more = {name: getattr(rules, name) or getattr(default.rules, name) for name in RULES}
                rules = replace(rules, **more)
            limit = default.rules.exclusive_cpus if limit is None else limit
        limits = [cpus for cpus in (own.exclusive_cpus, limit) if cpus is not None]
        return replace(rules, exclusive_cpus=min(limits, default=None))

    def refusals(self, *, unknown_may_fit: bool) -> Refusals:
        """Return when a pod is refused, where a node without topology may take one, or may not."""
        return Refusals(
            self.never, self.unknown_resources, unknown_may_fit, taints=self.taints, partial=self.partial
        )

    def exempts(self, *, user: str, namespace: str, runtime_class: str) -> str | None:
        """Return the exemption that applies to a request, as in the file; None if there is none."""
        exempt = self.exemptions
        if runtime_class in exempt.runtime_classes:
            return f"runtimeClasses: {runtime_class}"
        if namespace in exempt.namespaces:
            return f"namespaces: {namespace}"
        for pattern in exempt.users:
            if user == pattern or (pattern.endswith("*") and user.startswith(pattern[:-1])):
                return f"users: {pattern}"
        return None

    def to_json(self) -> dict[str, object]:
        """Return the policy as JSON."""
        return {
            "defaults": [default.to_json() for default in self.defaults],
            "exemptions": {
                "users": list(self.exemptions.users),
                "namespaces": sorted(self.exemptions.namespaces),
                "runtimeClasses": sorted(self.exemptions.runtime_classes),
            },
            "workloads": {
                f"{kind}.{name}" if name else kind: list(map(str, paths))
                for (name, kind), paths in self.templates.items()
            },
            "never": self.never,
            "unknownResources": self.unknown_resources,
            "taints": self.taints,
            "partial": self.partial,
            "overQuota": self.over_quota,
            "shapes": [shape.name for shape in self.shapes],
            "poolLabels": sorted(self.pools.labels),
            "fixedPools": sorted(map(str, self.pools.fixed)),
            "unalignedResources": sorted(self.unaligned),
        }


_FIELDS = (
    "defaults", "exemptions", "workloads", "never", "unknownResources", "taints", "partial", "overQuota",
    "shapes", "poolLabels", "fixedPools", "unalignedResources",
)  # fmt: skip

NO_POLICY = ClusterPolicy()


def read(path: Path) -> ClusterPolicy:
    """Return the policy in a file; raise `BadPolicy` with every mistake and its place."""
    return edited.read(path, parse, error=BadPolicy)


def parse(data: bytes) -> ClusterPolicy:
    """Return the policy in YAML or JSON; raise `BadPolicy` with every mistake and its path."""
    return edited.parse(data, _policy, what="policy", error=BadPolicy)


def _policy(part: Part) -> ClusterPolicy:
    only(part, *_FIELDS)
    defaults, exempt = tuple(map(_default, part["defaults"].objects())), part["exemptions"]
    only(exempt, "users", "namespaces", "runtimeClasses")
    exemptions = Exemptions(
        users=tuple(_list(exempt["users"], _USER, "a user name, or a prefix that ends in *")),
        namespaces=frozenset(_list(exempt["namespaces"], _LABEL, "the name of a namespace")),
        runtime_classes=frozenset(_list(exempt["runtimeClasses"], _DOMAIN, "the name of a RuntimeClass")),
    )
    return ClusterPolicy(
        defaults,
        exemptions,
        MappingProxyType(_templates(part["workloads"])),
        never=_read_enum(part["never"], Reaction) or NO_POLICY.never,
        unknown_resources=_read_enum(part["unknownResources"], Reaction) or NO_POLICY.unknown_resources,
        taints=_read_enum(part["taints"], RequestReaction) or NO_POLICY.taints,
        partial=_read_enum(part["partial"], RequestReaction) or NO_POLICY.partial,
        over_quota=_read_enum(part["overQuota"], RequestReaction) or NO_POLICY.over_quota,
        shapes=shapes.declared(part["shapes"]),
        pools=_pools(part),
        unaligned=frozenset(_list(part["unalignedResources"], _RESOURCE, "the name of an extended resource")),
    )


def _pools(part: Part) -> GrowablePools:
    labels, fixed = {*BUILT_IN.labels}, set[Pool]()
    for entry in part["poolLabels"].elements():
        key = entry.required_text()
        if key and (wrong := label_syntax.impossible(key, ())):
            entry.wrong(wrong)
        labels.add(key)
    for entry in part["fixedPools"].elements():
        text = entry.required_text()
        key, named, name = text.partition("=")
        if text and not key:
            entry.wrong("names no label: write LABEL=NAME, or LABEL for all of its pools")
        elif key and (wrong := label_syntax.impossible(key, [name])):
            entry.wrong(wrong)
        elif key and key not in labels:
            entry.wrong(f'"{key}" is not a label of pools: list it in poolLabels, or remove it here')
        elif named and not name:
            entry.wrong(f"names no pool: write {key}=NAME, or {key} for all of its pools")
        fixed.add(Pool(key, name or None))
    return GrowablePools(frozenset(labels), frozenset(fixed))


def _default(part: Part) -> Default:
    before = len(part.mistakes)
    only(part, "namespaceSelector", *RULES, EXCLUSIVE_CPUS)
    default, enforce, warn, audit = (_policy_of(part[level]) for level in LEVELS)
    scheduler = part["scheduler"].text()
    if scheduler and (wrong := not_a_scheduler(scheduler)):
        part["scheduler"].wrong(wrong)
    gate, heal = _read_enum(part["gate"], Gate), _read_enum(part["heal"], Heal)
    limit = part[EXCLUSIVE_CPUS]
    cpus = limit.integer(least=0)
    if cpus is not None and cpus > intent.MOST_CPUS:
        limit.wrong(f"must be at most {intent.MOST_CPUS}")
    rules = NamespaceRules(
        default, enforce, warn, audit, scheduler=scheduler or None, gate=gate, heal=heal, exclusive_cpus=cpus
    )
    selected = tuple(requirements(part["namespaceSelector"]))
    if rules == UNRULED and len(part.mistakes) == before:
        part.wrong(f"sets nothing: add {', '.join(RULES)} or {EXCLUSIVE_CPUS}")
    return Default(selected, rules)


def _policy_of(part: Part) -> Policy | None:
    absent, text = part.value is None, part.text()
    if absent or part.value is None:
        return None
    try:
        return intent.policy(text, where=part.where)
    except BadInput as error:
        part.mistakes.extend(error.mistakes)
        return None


def _read_enum(part: Part, enum: type[EnumT]) -> EnumT | None:
    if part.value is None:
        return None
    part.required_text()
    return part.one_of(enum)


def _list(part: Part, shape: re.Pattern[str], what: str) -> Iterator[str]:
    """Yield the texts of a list, noting those that are malformed."""
    for entry in part.elements():
        text = entry.required_text()
        if text and not shape.fullmatch(text):
            entry.wrong(f'"{text[:64]}" is not {what}')
        yield text


def _templates(part: Part) -> dict[GroupKind, tuple[TemplatePath, ...]]:
    templates_: dict[GroupKind, tuple[TemplatePath, ...]] = {}
    for entry in part.objects():
        only(entry, "group", "kind", "templates")
        name, kind = entry["group"].text(), entry["kind"].required_text()
        if name and not _DOMAIN.fullmatch(name):
            entry["group"].wrong(
                f'"{name[:64]}" is not an API group: write it without the version, like batch'
            )
        if kind and not _KIND.fullmatch(kind):
            entry["kind"].wrong(f'"{kind[:64]}" is not a kind, like TrainJob')
        if (name, kind) == templates.POD:
            entry["kind"].wrong("pods are always reviewed, and have no pod templates")
        if (name, kind) in templates_:
            entry["kind"].wrong(f"{kind} of {name or 'the core group'} is listed twice: merge the entries")
        templates_[name, kind] = tuple(_paths(entry["templates"]))
    return templates_


def _paths(part: Part) -> Iterator[TemplatePath]:
    listed = part.required()
    if listed.value == []:
        listed.wrong("is empty: list the paths of the pod templates")
    for entry in listed.elements():
        text = entry.required_text()
        try:
            if text:
                yield TemplatePath.read(text)
        except ValueError as error:
            entry.wrong(str(error))


# A user may be any name that an authenticator returns.
_USER = re.compile(r"[^*]+\*?|\*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DOMAIN = re.compile(rf"(?=.{{1,253}}\Z){_LABEL.pattern}(\.{_LABEL.pattern})*")
_RESOURCE = re.compile(r"[a-z0-9][-a-z0-9.]{0,252}/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
