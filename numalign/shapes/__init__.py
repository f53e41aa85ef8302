"""
What a node is, apart from how it is today.

Whether a pod could ever run is asked of shapes: of nodes in health and with nothing on them, as this cluster
has them, had them, or was told of. Whatever is decided here is decided from values: this package reads no
file, asks no clock and knows no API.
"""

from numalign.shapes.history import RememberedShapes, ShapeHistory
from numalign.shapes.identity import Identity
from numalign.shapes.shape import KnownShape, LabelValues, Shape
from numalign.shapes.unknown_node import UnknownNode

__all__ = [
    "Identity",
    "KnownShape",
    "LabelValues",
    "RememberedShapes",
    "Shape",
    "ShapeHistory",
    "UnknownNode",
]
