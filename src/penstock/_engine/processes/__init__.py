"""The programs of this user on this machine: which run, one in the background, one that is kept running, exit codes."""
