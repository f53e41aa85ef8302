"""Helm, built once from the Go module of this folder."""
