"""What checkpoints and connectors need of disks and stores alike: durable files, names given in one step, access."""
