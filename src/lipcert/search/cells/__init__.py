"""Constants on all cells of a partition of a box: a grid, or cells that are split until each is good enough."""
