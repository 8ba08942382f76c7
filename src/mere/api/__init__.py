"""What the command line, the server, the console and the bridges stand on: a project, and every verb on it."""
