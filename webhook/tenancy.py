"""
The pods that are there already, held against what their namespaces ask.

Whoever is about to enforce a level wants to know first how many pods would have been refused. So the running
pods are counted by namespace and level whenever the metrics are read; nothing is done to them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from numalign.cluster.policy import PolicyKeeper
from numalign.fleet import Question
from numalign.rules.evaluate import NO_INTENT
from numalign.rules.intent import Intent, NamespaceRules
from numalign.runtime.metrics import PREFIX
from webhook.catalogue import Catalogue
from webhook.validate import LEVELS, shortfalls


@dataclass(frozen=True, slots=True)
class PodsBelow(Collector):
    """Counts the pods that have not ended, by namespace and by the level that they fall short of.

    Every namespace that asks for a level is counted, also where no pod falls short of it.
    """

    catalogue: Catalogue
    policy: PolicyKeeper

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The counts as they are when they are asked for."""
        family = GaugeMetricFamily(
            f"{PREFIX}pods_below",
            "Pods that have not ended and fall short of a level that their namespace asks for.",
            labels=["namespace", "level"],
        )
        for (namespace, level), count in sorted(self._counts().items()):
            family.add_metric([namespace, level], count)
        yield family

    def _counts(self) -> Counter[tuple[str, str]]:
        ruled = self._ruled()
        counts = Counter[tuple[str, str]]()
        for namespace, rules in ruled.items():
            counts.update({(namespace, name): 0 for name in LEVELS if LEVELS[name](rules)})
        for tenants in self.catalogue.feed.tenants():
            rules = ruled.get(tenants.namespace, NamespaceRules())
            stated = tenants.asking.intent or (Intent(rules.default) if rules.default else NO_INTENT)
            question = Question(tenants.asking.demand, stated)
            counts.update({(tenants.namespace, name): tenants.count for name in shortfalls(rules, question)})
        return counts

    def _ruled(self) -> Mapping[str, NamespaceRules]:
        """The namespaces that ask anything of their pods, the cluster's own policy heard."""
        moment = self.catalogue.now
        if moment is None:
            return {}
        policy = self.policy.now
        rules = {
            name: policy.rules_for(own, moment.labels_of(name), name)
            for name, own in moment.namespaces.items()
            if name not in policy.exemptions.namespaces
        }
        return {name: asked for name, asked in rules.items() if not asked.disabled}
