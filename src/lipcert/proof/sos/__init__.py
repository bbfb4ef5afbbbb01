"""Sums of squares as proofs: the identity, the bound that any Gram matrices prove, exact corrections of them."""

from lipcert.proof.sos.absorb import SosIdentity, monomial_reach
from lipcert.proof.sos.prove import SosProof, prove_sos

__all__ = ["SosIdentity", "SosProof", "monomial_reach", "prove_sos"]
