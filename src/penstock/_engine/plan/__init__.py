"""The execution plan: immutable data about levels and slots, and the subtasks in them."""
