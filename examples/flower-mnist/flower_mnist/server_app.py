"""What the server does: runs the configured algorithm on whatever nodes there are, and writes a run folder."""

from pathlib import Path

from afbs.apps import server_app

app = server_app(Path(__file__).parent / "afbs.toml")
