"""What a node does: trains the configured network on its own samples."""

from pathlib import Path

from afbs.apps import client_app
from flower_mnist.dataset import load

app = client_app(Path(__file__).parent / "afbs.toml", load=load)
