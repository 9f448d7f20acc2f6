"""What crosses a process boundary or a restart."""
