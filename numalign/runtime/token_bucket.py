"""A rate limit: a burst, and from then on a number per second."""

from collections.abc import Callable


class TokenBucket:
    """Holds up to `burst` tokens, and gets `per_second` of them; it begins full."""

    def __init__(self, per_second: float, burst: int, *, clock: Callable[[], float]) -> None:
        self._per_second, self._burst, self._clock = per_second, burst, clock
        self._tokens, self._filled = float(burst), clock()

    def take(self) -> bool:
        """Take a token; False if there is none."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._filled) * self._per_second)
        self._filled = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
