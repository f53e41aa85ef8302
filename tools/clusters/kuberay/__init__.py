"""The real KubeRay operator, built and run next to a control plane."""
