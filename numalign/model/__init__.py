"""
Values: the request of a pod, the state of a node, and the placement of a pod on it.

All are frozen and use only the standard library. In the order in which they build on each other: errors,
quantity, resources, attributes, constraints, machine, options, pod, intent, demand, node, placement. Nothing
here waits, logs, reads a file or uses the time.
"""
