"""
The admission webhook.

The API server sends each pod before it stores it, in an AdmissionReview. The response is a patch that keeps
the pod off nodes that could never align it, a warning, or a denial.
"""
