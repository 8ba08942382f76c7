"""Commands about long-running processes: the server, its users, the warm engine, the checkup."""
