"""Fuzzing with independent oracles: random networks, lying solvers, damaged files, forged proofs, edited folders."""
