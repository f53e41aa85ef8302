"""Helm and promtool, built once from the Go modules of this folder."""
