"""Proofs of polynomial bounds in files, checked against the problem that is given."""
