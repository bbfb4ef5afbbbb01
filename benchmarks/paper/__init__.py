"""The reproduction of the paper as pages of docs: `lipcert reproduce` computes, this copies and counts."""
