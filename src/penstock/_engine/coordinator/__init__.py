"""What the job does next: pure state machines on the driver, events in, instructions out."""
