"""Files of web servers and records of web APIs, fetched over HTTP."""
