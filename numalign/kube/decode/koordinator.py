"""
What Koordinator publishes of a kubelet, in annotations of its NodeResourceTopology objects.

Koordinator's koordlet lists CPUs and memory of the machine by zone, whatever the kubelet's managers do, and
annotates what it read from the kubelet: the policy of the CPU manager with its options, and the place of each
CPU (github.com/koordinator-sh/koordinator, apis/extension/numa_aware.go). Without a policy, or with an option
that is not known, the manager counts as unknown. Only programs of the cluster write these objects.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from numalign.kube.decode.parts import Part
from numalign.model.machine import MOST_CPUS
from numalign.model.node import CpuManager
from numalign.model.options import CpuOption

CPU_POLICY = "kubelet.koordinator.sh/cpu-manager-policy"
CPU_TOPOLOGY = "node.koordinator.sh/cpu-topology"
ANNOTATIONS = (CPU_POLICY, CPU_TOPOLOGY)


@dataclass(frozen=True, slots=True)
class CpuFacts:
    """The kubelet's CPU manager, None if unknown, its options, and the threads per core, None if unknown."""

    manager: CpuManager | None = None
    options: frozenset[CpuOption] = frozenset()
    threads: int | None = None


NO_FACTS = CpuFacts()


def cpu_facts(annotations: Mapping[str, object], cpus: int) -> CpuFacts:
    """Return what the annotations tell of a machine with so many CPUs; what cannot be read is unknown."""
    threads, detail = None, _read(annotations.get(CPU_TOPOLOGY))["detail"]
    if isinstance(detail.value, list) and len(detail.value) == cpus <= MOST_CPUS:
        # All CPUs are listed, so cores can be counted, and may all have as many threads.
        places = (tuple(cpu[key].integer() for key in ("node", "socket", "core")) for cpu in detail.objects())
        counts = {*Counter(places).values()}
        threads = counts.pop() if len(counts) == 1 and not detail.mistakes else None
    policy = _read(annotations.get(CPU_POLICY))
    options = {name: part.text() == "true" for name, part in policy["options"].members()}
    manager = policy["policy"].one_of(CpuManager)
    if policy.mistakes or not options.keys() <= {*CpuOption}:
        return CpuFacts(threads=threads)
    return CpuFacts(manager, frozenset(CpuOption(name) for name, on in options.items() if on), threads)


def _read(text: object) -> Part:
    try:
        return Part(orjson.loads(text) if isinstance(text, str) else None)
    except orjson.JSONDecodeError:
        return Part(None)
