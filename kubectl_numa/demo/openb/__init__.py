"""
A real GPU cluster to try the rules on, since an invented one would suit its inventors.

The trace "openb" (Alibaba cluster-trace-gpu-v2023, "Beware of Fragmentation", USENIX ATC 2023) lists what
1,523 nodes had and what 8,152 pods requested. `shapes` has these figures; `recipe` adds what the trace does
not contain (zones, kubelet policies, intents), the same way every time. data/README.md explains both.
"""

from kubectl_numa.demo.openb.recipe import cluster, pods

__all__ = ["cluster", "pods"]
