"""Decides what a job does next: pure state machines on the driver, which take events and return instructions."""
