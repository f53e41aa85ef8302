"""The scheduler extender: answers calls of schedulers."""
