"""Named sets of cases that write rows, and the page made of the rows."""
