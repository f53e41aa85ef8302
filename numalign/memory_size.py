"""
How much memory a value takes.

What is remembered was written by others, and one of them may write a thousand times as much as another. So
it is counted in bytes, as the interpreter holds them: every part of a value, and each of them once.
"""

import gc
from enum import Enum
from itertools import chain
from sys import getsizeof
from types import FunctionType, ModuleType

_SHARED = (type, Enum, FunctionType, ModuleType, type(None), bool)
"""What is there anyway, and leads everywhere."""


def weight(*values: object) -> int:
    """Return the bytes of values that refer to nothing but their own parts, as all frozen ones do.

    Takes time by their parts: less than it took to make them of a text.
    """
    total, met = 0, set[int]()
    layer: list[object] = list(values)
    while layer:
        fresh = {id(each): each for each in layer if not isinstance(each, _SHARED)}
        for known in met & fresh.keys():
            del fresh[known]
        met |= fresh.keys()
        total += sum(map(getsizeof, fresh.values()))
        # Where all keys are texts, the collector is not told of them.
        layer = gc.get_referents(*fresh.values())
        layer += chain.from_iterable(each for each in fresh.values() if isinstance(each, dict))
    return total
