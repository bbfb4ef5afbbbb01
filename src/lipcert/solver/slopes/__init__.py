"""Multipliers of slope programs, which are hints: the bound that they promise is proved elsewhere."""
