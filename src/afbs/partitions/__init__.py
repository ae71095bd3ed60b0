"""One way of spreading samples over clients a file."""
