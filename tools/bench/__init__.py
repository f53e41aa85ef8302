"""Benchmarks: programs that make their input from a fixed seed, measure, and print tables."""
