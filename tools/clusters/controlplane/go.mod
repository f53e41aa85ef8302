// Only marks the folder as a module: what is required stands in go.<minor>.mod, one for each version of Kubernetes.
module numalign.io/e2e/controlplane

go 1.24.0
