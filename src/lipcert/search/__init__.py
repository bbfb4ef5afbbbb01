"""Branch and bound: a tree of cells that grows where bounds are not good enough yet, the worst cell first."""
