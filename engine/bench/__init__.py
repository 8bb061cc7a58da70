"""Benchmarks that ship with the package: what `engine bench` runs."""
