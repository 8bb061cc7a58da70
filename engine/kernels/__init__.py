"""Launched algorithms in the kernel language that two or more folders use: scan, sort, reduce."""
