"""Helm and promtool, built once from the Go modules that stand here."""
