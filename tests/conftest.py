"""Settings that every test shares."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("suite", deadline=None, max_examples=100, derandomize=True)
settings.load_profile("suite")
