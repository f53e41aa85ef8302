"""Nodes with simulated kubelets and topology exporters."""
