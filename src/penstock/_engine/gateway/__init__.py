"""What others see of a running job, as plain data, and what they may ask of it; Flink calls it the gateway of a job."""
