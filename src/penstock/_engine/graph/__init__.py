"""From what a program describes to the job graph that runs: stream graph, uids, chaining, pickling, plan texts."""
