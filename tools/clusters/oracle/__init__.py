"""The kubelet's own managers, compiled into a program, and its client."""
