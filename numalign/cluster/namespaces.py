"""
Namespaces: what a platform team asks of the pods inside, by labels.

The labels are read by the rules; here is only the way to them.
"""

from collections.abc import Mapping

from numalign.cluster.parts import Part
from numalign.rules import intent
from numalign.rules.errors import BadIntent
from numalign.rules.intent import NamespaceRules


def namespace(raw: Mapping[str, object]) -> tuple[str, NamespaceRules]:
    """The name of a namespace and what its labels ask; raises `BadIntent` with every mistake."""
    whole = Part(raw)
    metadata = whole["metadata"]
    name, labels = metadata["name"].needed_text(), metadata["labels"].texts()
    whole.settle(BadIntent)
    return name, intent.parse_namespace(labels)
