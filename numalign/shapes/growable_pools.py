"""
Which pools of nodes may get nodes of any hardware: those that autoscalers and clouds manage.

Such a pool launches what pending pods need, or its owner changes its machine type. So of its next node only
this is known: the name of the pool, the lasting taints, and which labels its nodes lack. The other labels of
its nodes may have any value there. A pool is `fixed` if the policy file says that all its kinds of nodes are
known.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from numalign.model.attributes import Attributes, Taint
from numalign.model.constraints import Constraints, Operator, Requirement, Unmet
from numalign.shapes.new_nodes import set_later, varied
from numalign.shapes.shape import ABSENT, ANY, LabelValues, Shape, select

LABELS: Mapping[str, str] = MappingProxyType(
    {
        "karpenter.sh/nodepool": "sigs.k8s.io/karpenter, pkg/apis/v1/labels.go, NodePoolLabelKey",
        "eks.amazonaws.com/nodegroup": "eksctl, pkg/apis/eksctl.io/v1alpha5/types.go, EKSNodeGroupNameLabel",
        "alpha.eksctl.io/nodegroup-name": "eksctl, pkg/apis/eksctl.io/v1alpha5/types.go, NodeGroupNameLabel",
        "cloud.google.com/gke-nodepool": "https://cloud.google.com/kubernetes-engine/docs/concepts/node-pools",
        "kubernetes.azure.com/agentpool": "https://learn.microsoft.com/azure/aks/use-labels",
        "agentpool": "cluster-autoscaler, cloudprovider/azure/azure_template.go, legacyAgentPoolNodeLabelKey",
    }
)
"""The labels with the name of a node's pool, each with its source."""


class Pool(NamedTuple):
    """A pool of nodes by the label that names it; `name` is None for all pools of that label."""

    key: str
    name: str | None = None

    def __str__(self) -> str:
        """Return it as a label selector: `karpenter.sh/nodepool=default`."""
        return self.key if self.name is None else f"{self.key}={self.name}"


class PoolNode(NamedTuple):
    """What nodes of a pool have in common: the keys of labels, their pools and lasting taints."""

    keys: tuple[str, ...]
    pools: tuple[tuple[str, str], ...]
    taints: tuple[Taint, ...]


@dataclass(frozen=True, slots=True)
class GrowablePools:
    """The labels that name pools, and which pools are `fixed`."""

    labels: frozenset[str] = frozenset(LABELS)
    fixed: frozenset[Pool] = frozenset()

    def named(self, constraints: Constraints) -> Pool | None:
        """Return a pool that a pod names and that may grow, whether or not it has nodes; None without one."""
        for term in constraints.terms if constraints.terms is not None else [None]:
            every = (*constraints.selector, *(term.expressions if term else ()))
            named = [each for each in every if each.key in self.labels and not each.allows(None)]
            names = [LabelValues(each.values if each.operator is Operator.IN else None) for each in named]
            pools = [
                self._pool(each.key, self._left(each.key, its))
                for each, its in zip(named, names, strict=True)
            ]
            if pools and all(pools):
                return pools[0]
        return None

    def grown_by(self, shape: Shape, constraints: Constraints) -> Pool | None:
        """Return the pool of nodes of this shape that may get a node which the pod may use."""
        return self._grown(shape.labels, shape.taints, constraints, ANY if shape.other_labels else ABSENT)

    def unmet(self, shape: Shape, constraints: Constraints) -> Unmet | None:
        """Return None if a pool of nodes of this shape may get a node which the pod may use."""
        return None if self.grown_by(shape, constraints) else Unmet.AFFINITY

    def node(self, attributes: Attributes) -> PoolNode | None:
        """Return what matters of a node whose hardware is not known; None if it is of no pool."""
        labels = attributes.labels
        pools = tuple((key, labels[key]) for key in sorted(self.labels) if key in labels)
        return PoolNode(tuple(labels), pools, attributes.lasting) if pools else None

    def grown_by_node(self, node: PoolNode, constraints: Constraints) -> Pool | None:
        """Return the pool of such nodes that may get a node which the pod may use."""
        names = {key: LabelValues(frozenset({name})) for key, name in node.pools}
        return self._grown({**dict.fromkeys(node.keys, ANY), **names}, node.taints, constraints, ABSENT)

    def _left(self, key: str, names: LabelValues) -> LabelValues:
        if Pool(key) in self.fixed:
            return replace(names, known=frozenset())
        if names.known is None:
            return names
        return replace(
            names, known=frozenset(each for each in names.known if Pool(key, each) not in self.fixed)
        )

    @staticmethod
    def _pool(key: str, names: LabelValues) -> Pool | None:
        if not names.known:
            return None if names.known is not None else Pool(key)
        return Pool(key, *names.known) if len(names.known) == 1 else Pool(key)

    def _grown(
        self,
        labels: Mapping[str, LabelValues],
        taints: tuple[Taint, ...],
        constraints: Constraints,
        others: LabelValues,
    ) -> Pool | None:
        """Return a pool of such nodes that may get one for the pod; `others` stands for labels not listed."""
        left = {key: self._left(key, labels.get(key, others)) for key in sorted(self.labels)}
        pools = {key: pool for key, names in left.items() if (pool := self._pool(key, names))}
        # Where all nodes are of a fixed pool, it does not matter by which other label it is known, too.
        if any(left[key].always for key in left.keys() - pools.keys()) or not constraints.tolerate(taints):
            return None
        for key, pool in pools.items():
            known = {**left, key: replace(left[key], always=True)}

            def may(requirement: Requirement, known: Mapping[str, LabelValues] = known) -> bool:
                name = requirement.key
                if name in known:
                    return known[name].may(requirement)
                free = name in labels or others is ANY or varied(name) or set_later(name)
                return free or requirement.allows(None)

            if select(constraints, may):
                return pool
        return None


BUILT_IN = GrowablePools()
"""What holds without a policy file."""


class Declared(NamedTuple):
    """What the policy file says of nodes: the shapes that can come at any time, and which pools may grow."""

    shapes: tuple[Shape, ...] = ()
    pools: GrowablePools = BUILT_IN
