"""Where a number becomes an upper bound, and nowhere else."""

from lipcert.proof.certificate import Certificate
from lipcert.proof.cheap import prove_interval, prove_product

__all__ = ["Certificate", "prove_interval", "prove_product"]
