"""
The CPU manager under policy static, as far as counts per zone tell.

Restates policy_static.go and cpu_assignment.go of pkg/kubelet/cm/cpumanager. Amounts are millicores of whole
CPUs. Where the kubelet would pick CPU ids by core and cache, counts need only how many each zone gives;
every CPU counts as a core of its own and every zone as a socket.
"""

from collections.abc import Iterable

from numalign.rules.demand import Step
from numalign.rules.kubelet import masks
from numalign.rules.kubelet.masks import Mask
from numalign.rules.kubelet.merge import Offer, offer
from numalign.rules.kubelet.pool import Amounts, Pool, add, draw, pool, subtract
from numalign.rules.resources import CPU, MILLI
from numalign.rules.topology import CpuManager, Node


def of(node: Node) -> Pool | None:
    """The CPUs before the pod's first container; None where the manager is off."""
    if node.cpu_manager is not CpuManager.STATIC:
        return None
    return pool(
        total=(zone.capacity.get(CPU, 0) for zone in node.zones),
        free=(zone.free.get(CPU, 0) // MILLI * MILLI for zone in node.zones),
    )


def offers(cpus: Pool, step: Step) -> list[Offer]:
    """The hints for a step; none at all if it asks for no exclusive CPU."""
    if not step.cpu:
        return []
    # A mask is a set of zones that own CPUs; the CPUs of init containers must all lie within.
    hosts = masks.of(zone for zone, amount in enumerate(cpus.total) if amount)
    possible = cpus.serving(step.cpu)
    if hosts != masks.full(len(cpus.total)):
        possible = [mask for mask in possible if mask & hosts == mask]
    return [offer(CPU, possible, width(cpus.total, step.cpu))]


def width(total: Iterable[int], asked: int) -> int:
    """The fewest zones whose CPUs, reserved and busy ones included, reach what is asked."""
    hosts = [amount for amount in total if amount]
    return masks.fewest(hosts, asked) or len(hosts)


def allocate(cpus: Pool, step: Step, mask: Mask | None) -> tuple[Pool, Amounts] | None:
    """The CPUs that a container gets, from its affinity first and then from anywhere; None if too few."""
    available = cpus.available
    if sum(available) < step.cpu:
        return None
    everywhere = range(len(available))
    inside = everywhere if mask is None else masks.members(mask)
    near = _packed(cpus.total, available, inside, step.cpu)
    far = _packed(cpus.total, subtract(available, near), everywhere, step.cpu - sum(near))
    taken = add(near, far)
    return cpus.charged(taken, step.role), taken


def _packed(total: Amounts, available: Amounts, zones: Iterable[int], asked: int) -> Amounts:
    """Whole zones, then the fullest zone before the next (takeByTopologyNUMAPacked)."""
    order = sorted(zones, key=lambda zone: (available[zone], zone))
    whole = []
    for zone in order:
        if total[zone] and available[zone] == total[zone] <= asked:
            whole.append(zone)
            asked -= total[zone]
    taken = draw(available, whole, sum(total[zone] for zone in whole))
    return add(taken, draw(subtract(available, taken), order, asked))
