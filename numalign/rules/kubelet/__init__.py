"""
What the kubelet does: its three managers, the merge of their hints, and the admission of a pod.

`cpu`, `memory` and `device` are modules of the same few functions: the state of an empty-handed pod on a
node (`of`), the hints for a step (`offers`), the fewest zones by hardware (`width`), and `allocate`.
`merge` joins hints under a policy; `admit` walks a pod through all of them.
"""
