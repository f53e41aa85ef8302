"""Answers calls of Volcano."""
