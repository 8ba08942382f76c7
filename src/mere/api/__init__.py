"""A project and everything that can be done with it: the base of the command line and the server."""
