"""Documents with any value at any place."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

Path = tuple[Any, ...]
ABSENT = object()

SCRAPS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "0", "0-1", "1Gi", "node-0", "Node", "cpu", "In", "Exists", "Always", "x" * 400]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "key", "spec", "zones", "cpu", "values"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


def paths(value: object, path: Path = ()) -> Iterator[Path]:
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    yield path
    for step, inner in steps:
        yield from paths(inner, (*path, step))


def changed(document: object, path: Path, value: object) -> object:
    """Copy a document, and set or add a member; `ABSENT` removes it."""
    whole = deepcopy(document)
    inner: Any = whole
    for step in path[:-1]:
        inner = inner[step]
    if value is ABSENT:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return whole


def documents(good: object) -> st.SearchStrategy[Any]:
    places = st.sampled_from([*paths(good)])
    return st.builds(lambda path, scrap: changed(good, path, scrap) if path else scrap, places, SCRAPS)
