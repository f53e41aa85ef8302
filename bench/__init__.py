"""
How fast it is, on the machine at hand.

Each module is a program that makes its own input from a fixed seed, measures, and prints a table; none of
them fails for being slow. Figures are compared with those of the same run (a repeated template with a first
one, eight zones with two), because seconds of another machine say little.
"""
