"""One way for the server to learn which clients are alike a file."""
