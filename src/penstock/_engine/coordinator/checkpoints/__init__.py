"""What a checkpoint holds of a job, how an epoch moves it on, and how long it is kept."""
