"""
A real GPU cluster to try the rules on, because one made up by hand flatters whoever made it up.

The trace "openb" (Alibaba cluster-trace-gpu-v2023, "Beware of Fragmentation", USENIX ATC 2023) tells what
1,523 nodes had and what 8,152 pods asked for. `shapes` holds these figures; `recipe` adds what the trace
does not tell (zones, kubelet policies, intents), the same way every time. data/README.md explains both.
"""

from examples.openb.recipe import cluster, pods

__all__ = ["cluster", "pods"]
