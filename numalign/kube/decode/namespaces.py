"""
Namespaces: what a platform team asks of the pods inside, by labels.

The labels are read by the rules; here is only the way to them. All of them are kept, for a cluster's own
policy may select namespaces by any.
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
    """What a namespace's own labels ask, and all of its labels."""

    rules: NamespaceRules = UNRULED
    labels: Mapping[str, str] = field(default_factory=dict)


def facts(raw: Mapping[str, object]) -> tuple[NamespaceFacts, tuple[Mistake, ...]]:
    """Return what the labels of a v1 Namespace say, and all that is wrong with it; what can be read holds."""
    namespace = Part(raw)
    namespace["metadata"]["name"].required_text()
    labels = namespace["metadata"]["labels"].text_map()
    rules, unclear = intent.parse_namespace(labels)
    places = {mistake.where for mistake in namespace.mistakes}
    mistakes = (*namespace.mistakes, *(mistake for mistake in unclear if mistake.where not in places))
    return NamespaceFacts(rules, MappingProxyType(dict(labels))), mistakes
