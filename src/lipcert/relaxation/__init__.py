"""The fast road: relaxations as one moment matrix with rank-two rows."""
