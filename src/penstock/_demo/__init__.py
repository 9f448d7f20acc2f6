"""The demo that ``penstock demo`` runs: a program like a user's, which imports what users import and nothing else."""
