"""The real JobSet controller, built and run next to a control plane."""
