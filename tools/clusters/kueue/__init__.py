"""The real Kueue, built and run next to a control plane."""
