"""The tables and figures of [CLMP20], computed again, beside what was published.

targets -> entries -> estimators -> (jobs) -> findings -> comparison -> reports.

[CLMP20] Chen, Lasserre, Magron, Pauwels: Semialgebraic Optimization for Lipschitz Constants of ReLU Networks,
NeurIPS 2020.
"""
