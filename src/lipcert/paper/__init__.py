"""The tables and figures of [CLMP20], computed again, beside what was published.

cells -> estimators -> (jobs) -> outcomes -> statistics -> tables, plots. [CLMP20] Chen, Lasserre, Magron, Pauwels:
Semialgebraic Optimization for Lipschitz Constants of ReLU Networks, NeurIPS 2020.
"""
