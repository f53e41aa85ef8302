"""What tells one machine from another that has the same name."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """The uid of a Node object, and `systemUUID` and `machineID` as its kubelet tells them.

    What is empty is not known.
    """

    uid: str = ""
    system: str = ""
    machine: str = ""

    def differs(self, other: "Identity") -> bool:
        """Return whether anything that is known of both is not the same."""
        pairs = ((self.uid, other.uid), (self.system, other.system), (self.machine, other.machine))
        return any(mine and theirs and mine != theirs for mine, theirs in pairs)


UNKNOWN = Identity()
"""Of a machine that nobody told of."""
