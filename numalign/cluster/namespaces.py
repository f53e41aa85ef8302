"""
Namespaces: what a platform team asks of the pods inside, by labels.

The labels are read by the rules; here is only the way to them.
"""

from collections.abc import Mapping

from numalign.cluster.parts import Part
from numalign.rules import intent
from numalign.rules.errors import Mistake
from numalign.rules.intent import NamespaceRules


def namespace(raw: Mapping[str, object]) -> tuple[NamespaceRules, tuple[Mistake, ...]]:
    """What the labels of a v1 Namespace ask, and all that is wrong with it; what can be read holds."""
    whole = Part(raw)
    whole["metadata"]["name"].needed_text()
    rules, unclear = intent.parse_namespace(whole["metadata"]["labels"].texts())
    told = {mistake.where for mistake in whole.mistakes}
    return rules, (*whole.mistakes, *(mistake for mistake in unclear if mistake.where not in told))
