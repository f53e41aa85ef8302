"""Names on the command line: NAME, or TYPE/NAME as in kubectl."""

from dataclasses import dataclass

import click

from numalign.kube import resource_types
from numalign.kube.resource_types import NODE, POD, ResourceType


@dataclass(frozen=True, slots=True)
class TypedName:
    """An object of a type, by its name."""

    type: ResourceType
    name: str

    @classmethod
    def read(cls, text: str, *, default: ResourceType) -> "TypedName":
        """Return the object that a text names, of the `default` type if it names none.

        Raise `click.UsageError` for an invalid name, and `BadInput` for an unknown type.
        """
        type_name, slash, name = text.rpartition("/")
        if (slash and not type_name) or not name or "/" in type_name:
            raise click.UsageError(f"{text!r} is not a name: use NAME or TYPE/NAME, such as pod/web")
        return cls(resource_types.named(type_name, where=text) if slash else default, name)

    def __str__(self) -> str:
        """Return TYPE/NAME."""
        return f"{self.type.singular}/{self.name}"


def pod_or_workload(text: str) -> TypedName:
    """Return a pod or workload; raise as `TypedName.read` does, and for a node."""
    named = TypedName.read(text, default=POD)
    if named.type == NODE:
        raise click.UsageError(f"{named} creates no pods: name a pod or a workload")
    return named


def names(arguments: tuple[str, ...], type_: ResourceType) -> tuple[str, ...]:
    """Return the names of objects of one type; raise as `TypedName.read` does, and for another type."""
    read = [TypedName.read(argument, default=type_) for argument in arguments]
    if other := next((each for each in read if each.type != type_), None):
        raise click.UsageError(f"{other}: this command takes only {type_.plural}")
    return tuple(each.name for each in read)
