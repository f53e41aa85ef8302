"""A cluster with one node that runs images: the real kubelet with containerd and runc."""
