"""
The kubelet's rules: its managers, the merge of their hints, and the admission of a pod.

`cpu_manager`, `memory_manager` and `device_manager` have the same functions: the `state` of a node, the
`topology_hints` for a step, the fewest zones by hardware (`min_affinity_size`), and `allocate`.
`cpu_assignment` and `cpu_distribution` choose CPUs; `assumed_machine` is the machine assumed for a node of
which only amounts are known. `topology_manager` merges hints under a policy. `admit` takes a pod through all
of them, `pod_level` if it is served as a whole. `managers_state` reads and writes their state.
`observed_state` replaces predictions with observations, and `validation` lists what no kubelet starts with.
`work_limit` estimates the cost of an admission in advance.

Terms: a step is *given* part of what is *free*; the share of an init container is *reusable* by later
containers; a pod *keeps* what is still allocated once its containers run; it *holds* what the managers
assigned to it, which they free when they drop the pod.
"""
