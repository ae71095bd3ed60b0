"""afbs: semi-asynchronous federated learning that decides first and trains after."""
