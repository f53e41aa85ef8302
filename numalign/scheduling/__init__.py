"""
Placing pods: what nodes answer to one, which of them is best, and reserving what the kubelet will give it.

Whoever decides where pods go does so from one `SchedulerState`: the scorer for schedulers that ask it, the
controller for pods that wait behind a gate.
"""
