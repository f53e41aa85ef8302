"""The identity of a machine, which distinguishes machines with the same node name."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """The uid of a Node, and `systemUUID` and `machineID` as its kubelet reports them; empty if not known."""

    uid: str = ""
    system: str = ""
    machine: str = ""

    def differs(self, other: "Identity") -> bool:
        """Return whether any field known for both differs."""
        pairs = ((self.uid, other.uid), (self.system, other.system), (self.machine, other.machine))
        return any(mine and theirs and mine != theirs for mine, theirs in pairs)


UNKNOWN = Identity()
"""Of a machine without a known identity."""
