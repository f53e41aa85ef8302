"""
DOOR 1: the API server comes in.

It asks about a pod before it stores it, in an AdmissionReview; it is answered with a patch that keeps
the pod off nodes that could never align it, a warning, or a refusal.
"""
