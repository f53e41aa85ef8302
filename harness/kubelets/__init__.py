"""Real kubelets on machines that do not exist, for tests and for people who have no such machines."""
