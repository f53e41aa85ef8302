"""
What a node is, apart from its current state.

Whether a pod could ever run is evaluated for shapes: for healthy, empty nodes that this cluster has, had, or
has declared. Everything here is decided from values: this package reads no file, uses no clock and knows no
API.
"""

from numalign.shapes.growable_pools import Declared, GrowablePools, Pool
from numalign.shapes.history import Identity, RememberedShapes, ShapeHistory
from numalign.shapes.keeping import LeftOut
from numalign.shapes.shape import KnownShape, LabelValues, Shape, UnknownNode, keyed

__all__ = [
    "Declared",
    "GrowablePools",
    "Identity",
    "KnownShape",
    "LabelValues",
    "LeftOut",
    "Pool",
    "RememberedShapes",
    "Shape",
    "ShapeHistory",
    "UnknownNode",
    "keyed",
]
