"""Commands about what keeps running: the server, its users, the warm engine, the checkup."""
