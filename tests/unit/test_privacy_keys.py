"""Secrets come from a file or the environment, go nowhere, and give every client the same projection."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import numpy as np
import pytest

from afbs.privacy.keys import Secrets, derive, normals, read_secret, simulated, words
from afbs.privacy.projection import Projection
from afbs.seeds import Key
from afbs.types import UserError
from labels import clustered

SECRET = "correct horse battery staple 2026"


def test_derived_keys_follow_rfc_5869() -> None:
    """HKDF by hand: extract with a salt of zeros, expand one block."""
    extracted = hmac.digest(bytes(32), b"secret", hashlib.sha256)
    assert derive(b"secret", "x") == hmac.digest(extracted, b"afbs/x\x01", hashlib.sha256)


def test_the_stream_is_chacha20s() -> None:
    """RFC 7539, section 2.3.2 has no zero nonce; this is the first block under a zero key, appendix A.1, vector 1."""
    assert words(bytes(32), 2).tobytes().hex() == "76b8e0ada0f13d90405d6ae55386bd28"


def test_normal_numbers_are_normal() -> None:
    draws = normals(b"k" * 32, 200, 100)
    assert abs(draws.mean()) < 5 / 20_000**0.5
    assert draws.std() == pytest.approx(1.0, abs=0.03)
    assert np.mean(np.abs(draws) > 1.96) == pytest.approx(0.05, abs=0.008)


def test_a_secret_is_read_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text(SECRET + "\n")
    monkeypatch.setenv("AFBS_TEST_SECRET", SECRET)
    assert read_secret(str(tmp_path / "secret"), "") == SECRET.encode()
    assert read_secret("", "AFBS_TEST_SECRET") == SECRET.encode()
    assert read_secret("", "") is None


def test_a_missing_secret_is_a_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="secret_file"):
        read_secret(str(tmp_path / "nowhere"), "")
    with pytest.raises(UserError, match="no environment variable called NOT_SET_ANYWHERE"):
        read_secret("", "NOT_SET_ANYWHERE")
    with pytest.raises(UserError, match="both"):
        read_secret("a", "b")


def test_a_short_secret_is_refused_without_being_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFBS_TEST_SECRET", "hunter2")
    with pytest.raises(UserError, match="at least 16 bytes") as caught:
        read_secret("", "AFBS_TEST_SECRET")
    assert "hunter2" not in str(caught.value)


def test_printing_secrets_shows_nothing() -> None:
    text = repr(Secrets(b"my own secret", b"our shared secret"))
    assert "secret" not in text


def test_a_named_secret_decides_the_projection_whatever_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, _ = clustered(3)
    monkeypatch.setenv("AFBS_TEST_SECRET", SECRET)
    mechanism = Projection(number=3, secret_env="AFBS_TEST_SECRET", noise=0.0)
    one, other = (mechanism.group(counts, Key.root(seed, "clusters")).centroids for seed in (1, 2))
    assert one is not None
    assert other is not None
    assert np.allclose(one, other)
    monkeypatch.setenv("AFBS_TEST_SECRET", SECRET + "!")
    keyed = mechanism.group(counts, Key.root(1, "clusters")).centroids
    assert keyed is not None
    assert not np.allclose(keyed, one)


def test_the_notes_say_where_the_secret_came_from_and_not_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, _ = clustered(3)
    monkeypatch.setenv("AFBS_TEST_SECRET", SECRET)
    given = Projection(number=3, secret_env="AFBS_TEST_SECRET").group(counts, Key.root(1, "clusters")).notes
    assert given["released"]["secret"] == "given to the clients"
    assert SECRET not in repr(given)
    derived = Projection(number=3).group(counts, Key.root(1, "clusters")).notes
    assert "seed" in derived["released"]["secret"]


def test_a_deployed_client_without_a_secret_is_told_what_to_set() -> None:
    with pytest.raises(UserError, match="secret_file"):
        Projection().sketch(np.array([1, 2]), Secrets(b"o" * 32), 0)


def test_simulated_clients_share_one_secret_and_have_their_own() -> None:
    key = Key.root(1, "clusters")
    assert simulated(key, 0).shared == simulated(key, 1).shared
    assert simulated(key, 0).own != simulated(key, 1).own
