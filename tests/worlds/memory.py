"""The memory that a value takes, as the interpreter stores it: every part, and each of them once."""

import gc
from enum import Enum
from itertools import chain
from sys import getsizeof
from types import FunctionType, ModuleType

_SHARED = (type, Enum, FunctionType, ModuleType, type(None), bool)
"""Objects that exist anyway, and that refer to everything."""


def weight(*values: object) -> int:
    """Return the bytes of values that refer only to their own parts, as all frozen ones do."""
    total, met = 0, set[int]()
    layer: list[object] = list(values)
    while layer:
        fresh = {id(each): each for each in layer if id(each) not in met and not isinstance(each, _SHARED)}
        met |= fresh.keys()
        total += sum(map(getsizeof, fresh.values()))
        # `get_referents` omits the keys of a dict if all of them are texts.
        layer = gc.get_referents(*fresh.values())
        layer += chain.from_iterable(each for each in fresh.values() if isinstance(each, dict))
    return total
