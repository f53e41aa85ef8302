module numalign/tools/bench/floor

go 1.22
