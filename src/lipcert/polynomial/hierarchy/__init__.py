"""Moment and linear relaxations of polynomial problems: dense, sparse, nearly sparse, Krivine-Stengle."""
