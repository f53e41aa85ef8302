"""
Pods that run misaligned: told of, counted and, where their namespace says so, moved.

Three things write here. Marks stand on the pod and say how it sits. Events tell its owner. And a pod is asked
to go: only once a better place is held for its replacement, one of an owner at a time, slowly, and never
again where that did not help. Everything is decided from what the cluster shows by now, so whoever leads next
goes on from there, and remembers nothing of what was on its way.
"""
