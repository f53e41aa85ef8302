"""
Replays of a trace: its pods are placed one after the other on its nodes, to compare strategies.

A strategy is judged by how many GPUs are allocated once more are requested than there are, and by how many
are left that no typical pod can use (`fragments`). GPUs are shared here as traces share them, in thousandths
of one device, so this package has its own columns of nodes (`gpu_columns`).
"""
