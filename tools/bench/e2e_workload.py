"""
Pods that come and go like those of a real cluster, compressed into a minute.

Requests and policies are drawn from the trace of `kubectl_numa.demo.openb`. Its machines are larger than
those here, and it runs for weeks, so amounts and times are scaled; all scales are among the numbers below.
The same seed gives the same pods at the same moments, for every scheduler.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from kubectl_numa.demo import openb
from kubectl_numa.demo.openb.recipe import NAMESPACES
from numalign.model.intent import ENFORCE, POLICY
from numalign.model.quantity import millis, units

Raw = dict[str, Any]

NAMESPACE = "trace"
GPU = "nvidia.com/gpu"
MIB = 2**20

CPUS_AND_MEMORY = 2 / 3
"""A zone of the trace's common machine has 48 CPUs and 393 GiB for four GPUs, one here has 32 and 256."""
LARGEST: Mapping[str, int] = {"cpu": 32, "memory": 256 * 1024 * MIB, GPU: 4}
"""The largest zone here. The trace's jobs of eight GPUs, which are for two zones, request half of all."""
MULTI_WEIGHT = 12
"""How often a pod of several GPUs is drawn for each pod of one. They are 1 of 110 in the trace, whose
authors made variants with up to half of all GPUs in such pods; here they are 4 of 10.
"""
SERVICES = 0.15
"""The share of pods that stay until the end; the others run for a random time."""
SHORTEST = 1.0
"""The shortest time that a pod runs, in seconds."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task for one node, which runs for `life` seconds, or forever like services (None).

    `at` is the second at which it arrives. `requests` are whole CPUs, bytes and GPUs; a `guaranteed` task is
    limited to them, another one only in its GPUs.
    """

    name: str
    at: float
    life: float | None
    requests: Mapping[str, int]
    annotations: Mapping[str, str]
    guaranteed: bool

    def pod(self, attempt: int = 0) -> Raw:
        """Return the pod that its controller creates after so many attempts."""
        amounts = {name: str(amount) for name, amount in self.requests.items()}
        devices = {name: amount for name, amount in amounts.items() if name == GPU}
        resources = {"requests": amounts, "limits": amounts if self.guaranteed else devices}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{self.name}-{attempt}",
                "namespace": NAMESPACE,
                "labels": {"app": self.name},
                "annotations": dict(self.annotations),
            },
            "spec": {"containers": [{"name": "main", "image": "openb:2023", "resources": resources}]},
        }

    @property
    def policy(self) -> str:
        """The requested policy; empty if there is none."""
        return self.annotations.get(POLICY, "")


def tasks(seed: int, *, pods: int, seconds: float, life: float) -> list[Task]:
    """Return so many tasks that arrive within so many seconds, and run for `life` seconds on average."""
    dice = random.Random(seed)  # noqa: S311 - it makes input, not secrets
    drawn = _drawn(dice, pods)
    arrivals = sorted(dice.uniform(0, seconds) for _ in range(pods))
    return [
        Task(
            f"task-{number:04}",
            at,
            _life(dice, life),
            _requests(each),
            _annotations(each),
            "cpu" in _limits(each),
        )
        for number, (at, each) in enumerate(zip(arrivals, drawn, strict=True))
    ]


def _drawn(dice: random.Random, pods: int) -> Sequence[Raw]:
    everyone = list(openb.pods())
    weights = accumulate(MULTI_WEIGHT if _asked(pod).get(GPU, 0) > 1 else 1 for pod in everyone)
    return dice.choices(everyone, cum_weights=list(weights), k=pods)


def _life(dice: random.Random, mean: float) -> float | None:
    """Draw mostly short times, up to twice the mean, so that a run ends; None for services."""
    service, draw = dice.random() < SERVICES, dice.expovariate(1 / mean)
    return None if service else min(max(draw, SHORTEST), 2 * mean)


def _asked(pod: Raw) -> dict[str, int]:
    """Return thousandths of a CPU, bytes and whole GPUs; machines here do not share GPUs."""
    requests: Mapping[str, str] = pod["spec"]["containers"][0]["resources"]["requests"]
    amounts = {
        "cpu": millis(requests["cpu"]),
        "memory": units(requests.get("memory", "0")),
    }
    return amounts | ({GPU: int(requests[GPU])} if GPU in requests else {})


def _requests(pod: Raw) -> dict[str, int]:
    asked = _asked(pod)
    halves = max(asked.get(GPU, 0) // LARGEST[GPU], 1)
    scaled = {
        "cpu": max(round(asked["cpu"] / 1000 * CPUS_AND_MEMORY / halves), 1),
        "memory": max(round(asked["memory"] * CPUS_AND_MEMORY / halves / MIB), 1) * MIB,
        **({GPU: asked[GPU] // halves} if GPU in asked else {}),
    }
    return {name: min(amount, LARGEST[name]) for name, amount in scaled.items()}


def _limits(pod: Raw) -> Raw:
    limits: Raw = pod["spec"]["containers"][0]["resources"]["limits"]
    return limits


def _annotations(pod: Raw) -> dict[str, str]:
    """Return the policy that the owner requests, without the mistakes that the recipe makes to show them."""
    metadata = pod["metadata"]
    wanted = metadata.get("annotations", {}).get(POLICY, "")
    # Namespaces of pods with several GPUs admit no pod that requests less than this.
    least = NAMESPACES[metadata["namespace"]].get(ENFORCE, "")
    policy = wanted if wanted in _POLICIES else least
    return {POLICY: policy} if policy else {}


_POLICIES = ("single-numa-node", "restricted", "best-effort")
