"""The real Karpenter with its provider of invented nodes, built and run next to a control plane."""
