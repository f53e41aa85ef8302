"""The kubelet's own managers, compiled into a program, and how to talk with it."""
