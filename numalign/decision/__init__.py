"""Verdicts on pods: whether a pod would run on a node as its owner requests, its score, and the messages."""
