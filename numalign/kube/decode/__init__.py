"""What objects of Kubernetes say, as values: each decoder makes one value or raises with every mistake."""
