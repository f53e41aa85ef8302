"""
Benchmarks, with results for the machine that runs them.

Each module is a program that makes its own input from a fixed seed, measures, and prints a table; none fails
because it is slow. Figures are compared with those of the same run (a repeated template with a first one,
eight zones with two), because seconds on another machine say little.
"""
