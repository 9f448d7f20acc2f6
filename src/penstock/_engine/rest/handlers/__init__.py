"""The handlers, one module for each subject; each has a table of its routes at its end."""
