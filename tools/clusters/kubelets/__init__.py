"""Real kubelets on invented machines, for tests and for people who have no such machines."""
