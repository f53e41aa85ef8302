"""What the tests of both protocols share."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import strategies as st

from scorer.extender_protocol import BadCall

Raw = dict[str, Any]
Read = Callable[[bytes], object]

anything = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(),
    ),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(max_size=5), inner)),
    max_leaves=10,
)


def refusal(read: Read, call: object) -> tuple[int, list[str]]:
    with pytest.raises(BadCall) as caught:
        read(call if isinstance(call, bytes) else orjson.dumps(call))
    return int(caught.value.status), str(caught.value).splitlines()
