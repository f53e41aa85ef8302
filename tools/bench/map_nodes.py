"""Nodes of benchmarks for the map, one in a hundred of which is cordoned."""

from numalign.model.intent import Policy
from tools.bench.fleets import Case, Raw, objects


def many(count: int, makes: int = 24) -> list[Raw]:
    """Return so many nodes of so many makes, as Nodes and NodeResourceTopologies."""
    made = list(objects(Case.mixed(count, makes, Policy.SINGLE_NUMA_NODE).members()))
    for node in made[::2]:
        node["spec"] = {"unschedulable": node["metadata"]["name"].endswith("99")}
    return made
