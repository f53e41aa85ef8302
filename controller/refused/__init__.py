"""
Pods that a kubelet rejected: what their owners read, and which of them are deleted.

Such a pod has failed, and its controller has created another or will. It is worth keeping as evidence: so it
is reported at once and deleted late, if its namespace opted in, once its controller has a replacement.
"""
