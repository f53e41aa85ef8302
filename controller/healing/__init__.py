"""
Misaligned running pods: annotated, counted, reported in events and, if their namespace says so, moved.

Three things are written here. Annotations on a pod show its alignment. Events inform its owner. And a pod is
evicted: only once a better place is held for its replacement, one pod of an owner at a time, at a limited
rate, and not for a day once several evictions of the owner's pods did not help. All decisions follow from the
current state of the cluster, so the next leader continues from there without the moves that its predecessor
remembered.
"""
