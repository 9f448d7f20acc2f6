"""What the driver does for batch jobs with recovery: events, stored results, announcements of finished subtasks."""
