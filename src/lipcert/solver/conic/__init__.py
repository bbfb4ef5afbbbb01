"""General conic and linear solvers behind one interface."""
