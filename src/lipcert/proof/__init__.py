"""A number becomes an upper bound in this room, and nowhere else."""

from lipcert.proof.arithmetic import Arithmetic, prove_interval, prove_product
from lipcert.proof.cases import Cases
from lipcert.proof.certificate import Certificate, Proof
from lipcert.proof.multipliers import Multipliers
from lipcert.proof.sharpened import Sharpened, Within, prove_within

__all__ = [
    "Arithmetic",
    "Cases",
    "Certificate",
    "Multipliers",
    "Proof",
    "Sharpened",
    "Within",
    "prove_interval",
    "prove_product",
    "prove_within",
]
