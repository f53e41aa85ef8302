"""Tools of tests and measurements: control planes, simulated kubelets, a fake API server, processes.

They are not installed. The programs and the package never import them, and they import no tests.
"""
