"""A cluster whose one node runs images: the real kubelet over containerd and runc."""
