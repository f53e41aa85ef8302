"""The arrays of columns."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.signedinteger[Any]]
"""Integers of any width."""

Bools: TypeAlias = NDArray[np.bool_]

Rows: TypeAlias = NDArray[np.intp]
"""Numbers of rows."""
