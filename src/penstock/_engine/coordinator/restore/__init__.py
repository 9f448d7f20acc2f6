"""How the state of a checkpoint becomes the state of the job that starts from it."""
