"""
The version of the API server, which completes the pods that it stores as its version does.

A snapshot has it as an object of its own, because an API server answers `/version` with none.
"""

from collections.abc import Mapping

from numalign.kube.decode import nodes
from numalign.kube.decode.parts import Part
from numalign.model.errors import Mistake

GROUP, KIND = "numalign.io", "APIServerVersion"

NAME = "kubernetes"


def described(answer: object) -> dict[str, object]:
    """Return what an API server answers as an object in a snapshot."""
    version = Part(answer)["gitVersion"].text()
    return {"apiVersion": f"{GROUP}/v1", "kind": KIND, "metadata": {"name": NAME}, "gitVersion": version}


def minor(raw: Mapping[str, object]) -> tuple[int | None, tuple[Mistake, ...]]:
    """Return the minor version in such an object; None, without a mistake, if none can be read."""
    return nodes.minor(Part(raw)["gitVersion"].text()), ()
