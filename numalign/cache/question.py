"""What one pod requests of every node."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from numalign.lru import is_large
from numalign.model.demand import Demand
from numalign.model.intent import Intent, Policy


@dataclass(frozen=True, slots=True)
class Question:
    """What one pod requests of every node; equal for all pods of one template."""

    demand: Demand
    intent: Intent
    _hash: int = field(init=False, compare=False, repr=False)
    large: bool = field(init=False, compare=False, repr=False)
    """Whether it is too large to be cached by the thousand."""

    def __post_init__(self) -> None:
        # Every cache lookup needs the hash, and a demand has many parts.
        object.__setattr__(self, "_hash", hash((self.demand, self.intent)))
        object.__setattr__(self, "large", is_large(self.demand, self.intent))

    def __hash__(self) -> int:
        return self._hash

    def with_policy(self, policy: Policy) -> "Question":
        """Return the same pod with another policy."""
        return replace(self, intent=replace(self.intent, policy=policy))

    def left_out(self, unhinted: AbstractSet[str]) -> tuple[str, ...]:
        """Return the resources that kubelets could align and the intent does not concern, by name.

        Those that are `unhinted` do not count, unless the intent concerns nothing at all.
        """
        if not self.intent.resources:
            return ()
        requested = sorted({name for step in self.demand.steps for name in step.requests})
        others = self.intent.left_out(requested)
        counted = [name for name in others if name not in unhinted]
        return tuple(counted if len(others) < len(requested) else counted or others)

    @property
    def concerned(self) -> bool:
        """Whether the intent concerns any resource that the pod requests."""
        return any(self.intent.concerns(name) for step in self.demand.steps for name in step.requests)
