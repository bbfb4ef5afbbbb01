"""The mixed-integer formulation: the largest gradient norm over a box as a program with binary signs."""
