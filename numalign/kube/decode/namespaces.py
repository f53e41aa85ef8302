"""
Namespaces: what a platform team requests of the pods inside, by labels.

The rules read the labels; this module only decodes them. All of them are kept, because a cluster's own policy
may select namespaces by any.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from numalign.kube.decode.parts import Part
from numalign.model import intent
from numalign.model.errors import Mistake
from numalign.model.intent import UNRULED, NamespaceRules


@dataclass(frozen=True, slots=True)
class NamespaceFacts:
    """The rules in a namespace's own labels, and all of its labels."""

    rules: NamespaceRules = UNRULED
    labels: Mapping[str, str] = field(default_factory=dict)


def facts(raw: Mapping[str, object]) -> tuple[NamespaceFacts, tuple[Mistake, ...]]:
    """Return the rules in the labels of a v1 Namespace, and all mistakes; valid labels count."""
    namespace = Part(raw)
    namespace["metadata"]["name"].required_text()
    labels = namespace["metadata"]["labels"].text_map()
    rules, unclear = intent.parse_namespace(labels)
    places = {mistake.where for mistake in namespace.mistakes}
    mistakes = (*namespace.mistakes, *(mistake for mistake in unclear if mistake.where not in places))
    return NamespaceFacts(rules, MappingProxyType(dict(labels))), mistakes
