"""
Pods that a kubelet refused: what their owners read, and which of them are removed.

Such a pod is over, and whoever made it has made another or will. It is worth something as evidence: so it is
told of at once, and removed late, where its namespace wants that, once its controller has gone on without it.
"""
