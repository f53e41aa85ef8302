module numalign/bench/floor

go 1.22
