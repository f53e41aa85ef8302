"""
The memory size of a value.

Cached values are written by others, and one may be a thousand times as large as another. So their size is
counted in bytes, as the interpreter stores them: every part of a value, and each of them once.
"""

import gc
from enum import Enum
from itertools import chain
from sys import getsizeof
from types import FunctionType, ModuleType

_SHARED = (type, Enum, FunctionType, ModuleType, type(None), bool)
"""Objects that exist anyway, and that refer to everything."""


def weight(*values: object) -> int:
    """Return the bytes of values that refer only to their own parts, as all frozen ones do.

    The time depends on their parts: less than decoding them took.
    """
    total, met = 0, set[int]()
    layer: list[object] = list(values)
    while layer:
        fresh = {id(each): each for each in layer if not isinstance(each, _SHARED)}
        for known in met & fresh.keys():
            del fresh[known]
        met |= fresh.keys()
        total += sum(map(getsizeof, fresh.values()))
        # `get_referents` omits the keys of a dict if all of them are texts.
        layer = gc.get_referents(*fresh.values())
        layer += chain.from_iterable(each for each in fresh.values() if isinstance(each, dict))
    return total
