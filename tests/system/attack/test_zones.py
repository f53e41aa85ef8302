"""A node that has more zones than most, and pods that have more containers."""

from tests.system.attack import objects
from tests.system.attack.arena import Arena
from tests.system.attack.attackers import send
from tests.system.attack.objects import Json

ZONES, CONTAINERS = 16, 100
MOST_MIB = 96
AMOUNTS = {"cpu": 64, "memory": 512 * 2**30, "nvidia.com/gpu": 8}


def crowded(name: str) -> Json:
    """A pod of a hundred containers, and a hundred that run before them."""
    made = objects.pod(
        name,
        *({"cpu": str(1 + at % 7), "memory": "1Gi", "nvidia.com/gpu": "1"} for at in range(CONTAINERS)),
        policy="restricted",
    )
    first = [{**each, "name": f"first-{each['name']}"} for each in made["spec"]["containers"]]
    return {**made, "spec": {**made["spec"], "initContainers": first}}


async def test_200_containers_on_16_zones_delay_no_scheduler(arena: Arena) -> None:
    arena.put(*objects.node("sixteen", zones=ZONES, policy="restricted", amounts=AMOUNTS, free=50))
    scorer = await arena.scorer()
    asked = objects.filtering(crowded("crowded"), arena.names)
    async with arena.honest(scorer, most=MOST_MIB):
        for path in ("/filter", "/prioritize"):
            await send(scorer.door, path, [asked] * 2, at_once=2)
