"""
Values: what a pod asks for, what a node is, and what a pod gets there. Frozen, of the standard library alone.

In the order in which they build on each other: errors, quantity, resources, attributes, constraints, machine,
options, pod, intent, demand, node, placement. Nothing here waits, logs, reads a file or knows the time.
"""
