"""Certified upper bounds on the Lipschitz constants of ReLU networks."""
