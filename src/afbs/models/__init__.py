"""One network a file. A network is built with `shape` and `classes` where its constructor takes them."""
