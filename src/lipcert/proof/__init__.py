"""Where a number becomes an upper bound, and nowhere else."""

from lipcert.proof.arithmetic import Arithmetic, prove_interval, prove_product
from lipcert.proof.cases import Cases
from lipcert.proof.certificate import Certificate, Proof
from lipcert.proof.multipliers import Multipliers, prove_relaxed
from lipcert.proof.sharpened import Sharpened, Within, prove_within
from lipcert.proof.slopes import Slopes, prove_slopes
from lipcert.proof.tree import Tree

__all__ = [
    "Arithmetic",
    "Cases",
    "Certificate",
    "Multipliers",
    "Proof",
    "Sharpened",
    "Slopes",
    "Tree",
    "Within",
    "prove_interval",
    "prove_product",
    "prove_relaxed",
    "prove_slopes",
    "prove_within",
]
