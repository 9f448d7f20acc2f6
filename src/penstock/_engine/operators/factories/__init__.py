"""The factories of all operators: what a program can give each of them, and the operator that is made of it."""
