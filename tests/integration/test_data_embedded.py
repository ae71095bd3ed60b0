"""What comes with the package works with no network, no files and an empty cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = """
import socket

def no_network(*_, **__):
    raise AssertionError("the network was asked")

socket.socket.connect = socket.getaddrinfo = no_network
from afbs.registry import find

for name in ("digits", "mnist5k"):
    data = find("data", name)().load()
    print(name, *data.train_x.shape, len(data.test_y), data.classes, data.train_x.dtype)
"""


def test_embedded_data_need_no_network_and_no_files(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AFBS_", "HF_"))}
    environment |= {"AFBS_CACHE": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    for _ in range(2):  # the second time from the cache
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == ["digits 1442 1 8 8 355 10 uint8", "mnist5k 4000 1 28 28 1000 10 uint8"]


def test_the_embedded_digits_are_what_scikit_learn_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.datasets import load_digits

    from afbs.data.digits import Digits

    monkeypatch.setenv("AFBS_CACHE", str(tmp_path))
    data = Digits().load()
    original = load_digits()
    whole = np.concatenate([data.train_x, data.test_x]).reshape(-1, 64)
    expected = original.data.astype(np.uint8)
    np.testing.assert_array_equal(np.sort(whole.sum(axis=1)), np.sort(expected.sum(axis=1)))
    counts = np.bincount(data.train_y) + np.bincount(data.test_y)
    np.testing.assert_array_equal(counts, np.bincount(original.target))
    # a fifth of each class is for testing, rounded down
    np.testing.assert_array_equal(np.bincount(data.test_y), np.bincount(original.target) // 5)
    standard = (data.train_x / 255 - data.shift[0]) / data.scale[0]
    assert standard.mean() == pytest.approx(0, abs=1e-6)
    assert standard.std() == pytest.approx(1, abs=1e-6)
