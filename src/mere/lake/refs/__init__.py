"""What is done with refs: branch, publish, revert, guard, lease."""
