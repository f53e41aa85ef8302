"""
Placing pods: the answers of nodes, their ranking, and reserving what the kubelet will allocate.

All decisions come from one `SchedulerState`: in the scorer for schedulers that call it, in the controller for
pods that wait behind a gate.
"""
