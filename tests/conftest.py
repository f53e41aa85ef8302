"""What all tests share: how many inputs a law is tried on, and that no input is too slow to try.

A run draws the same inputs every time, so that two runs of one tree say the same. To look further, at inputs
that nobody has seen, there is `make laws`, or `pytest tests/laws --hypothesis-profile=thorough`.
"""

import gc

from hypothesis import HealthCheck, settings

# Laws run beside everything else on small machines: a slow input is no mistake.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("laws", PATIENT, max_examples=40, derandomize=True)
settings.register_profile("thorough", PATIENT, max_examples=2000)
settings.load_profile("laws")


def pytest_collection_finish() -> None:
    """Keep the collector from walking all tests again and again: they are there until the end."""
    gc.collect()
    gc.freeze()
