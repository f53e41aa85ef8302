"""
What the kubelet does: its managers, the merge of their hints, and the admission of a pod.

`cpu_manager`, `memory_manager` and `device_manager` are modules of the same few functions: the `state` of a
node, the `topology_hints` for a step, the fewest zones by hardware (`min_affinity_size`), and `allocate`.
`cpu_assignment` and `cpu_distribution` choose among CPUs, `assumed_machine` is the machine behind a node of
which only amounts are known. `topology_manager` merges hints under a policy; `admit` walks a pod through
all of them, `pod_level` where it is served as a whole; `managers_state` reads and writes their state.
`observed_state` puts what was observed in place of what was predicted, and `validation` refuses what no
kubelet starts with. `work_limit` says beforehand how much work an admission is.

A step is *given* something of what is *free*; an init container's share is *reusable* by later containers;
a pod *keeps* what is still out once its containers run; what the managers assigned to it, and get back
when it is dropped, is what it *holds*.
"""
