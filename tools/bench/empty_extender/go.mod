module numalign.io/bench/empty-extender

go 1.24
