"""`python -m lipcert` is the command line."""

from lipcert.cli import main

main()
