"""Decoders of Kubernetes objects: each returns one value, or raises an error with every mistake."""
