"""
Replaying a trace: its pods are placed one after the other on its nodes, under one strategy beside another.

What a strategy is worth shows in how many GPUs are allocated once more is asked than there is, and in how
many are left that no usual pod can use (`fragments`). GPUs are shared here as traces share them, in
thousandths of one device, so nodes stand in columns of this package's own (`gpu_columns`).
"""
