"""Where a number becomes an upper bound, and nowhere else."""

from lipcert.certificate.certificate import Certificate
from lipcert.certificate.cheap import prove_interval, prove_product

__all__ = ["Certificate", "prove_interval", "prove_product"]
