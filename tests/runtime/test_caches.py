"""What metrics say of all that is remembered."""

from prometheus_client import CollectorRegistry

from numalign.lru import ENTRY_BYTES, LRU
from numalign.runtime.caches import CacheSizes


def test_the_sizes_are_those_of_the_moment_at_which_they_are_asked_for() -> None:
    registry = CollectorRegistry(auto_describe=True)
    texts = LRU[str, str](9, weigh=lambda key, value: len(key) + len(value))
    numbers = [LRU[int, int](9), LRU[int, int](9)]
    registry.register(CacheSizes((lambda: {"texts": texts}, lambda: {"numbers": numbers[-1]})))

    def shown(name: str) -> tuple[float | None, float | None]:
        sizes = (f"numalign_cache_{unit}" for unit in ("bytes", "entries"))
        first, second = (registry.get_sample_value(size, {"cache": name}) for size in sizes)
        return first, second

    assert shown("texts") == shown("numbers") == (0, 0)
    texts.put("a", "bcd")
    assert shown("texts") == (4 + ENTRY_BYTES, 1)
    numbers.append(LRU[int, int](9))
    numbers[-1].put(1, 1)
    assert shown("numbers")[1] == 1
    texts.drop("a")
    assert shown("texts") == (0, 0)
