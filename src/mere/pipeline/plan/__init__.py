"""What is due, and why: takes facts about a ref, returns steps, touches nothing."""
