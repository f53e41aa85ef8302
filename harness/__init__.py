"""What tests and measurements share: control planes, simulated kubelets, a fake API server, processes.

Nothing here is installed: programs and the package never import it, and it imports no tests.
"""
