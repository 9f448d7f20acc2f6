"""The files of state in a checkpoint: chunks and columns, pickles, and whether they may be trusted."""
