"""From a program's transformations to the job graph: stream graph, uids, chaining, pickling, plan texts."""
