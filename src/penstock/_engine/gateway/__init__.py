"""What the outside sees of a job, as plain data, and the interface through which it steers one."""
