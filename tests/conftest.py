"""What all tests share: how much is tried, that no input is too slow to try, and a process kept lean."""

import gc

from hypothesis import HealthCheck, settings

from tests.thoroughness import EXAMPLES, Thoroughness

# Laws run beside everything else on small machines: a slow input is no mistake.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

for _profile, _examples in EXAMPLES.items():
    settings.register_profile(
        _profile, PATIENT, max_examples=_examples, derandomize=_profile is not Thoroughness.THOROUGH
    )
settings.load_profile(Thoroughness.SAMPLE)

# By its own measure the collector walks all that fixtures and caches hold every few tests.
gc.set_threshold(10_000, 20, 50)
# While tests are collected nothing becomes garbage that would be worth a look.
gc.disable()


def pytest_collection_finish() -> None:
    """Keep the collector from walking all tests again and again: they are there until the end."""
    gc.collect()
    gc.freeze()
    gc.enable()
