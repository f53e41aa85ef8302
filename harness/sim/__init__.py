"""Nodes with simulated kubelets and exporters."""
