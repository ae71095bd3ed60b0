"""Keys and certificates for a fleet on one machine, made on the spot: nothing of it is good anywhere else."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

_DAYS = 30
LOOPBACK = "127.0.0.1"


def make_certificates(folder: Path) -> None:
    """`ca.crt`, and `server.crt` with `server.key` for this machine's loopback address. The authority's key is not
    kept: nobody can sign another certificate with it."""
    authority, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "afbs fleet")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address(LOOPBACK))])
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    root = (
        _certificate(issuer, issuer, authority.public_key())
        .add_extension(x509.BasicConstraints(True, 0), True)
        .add_extension(usage, True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority.public_key()), False)
        .sign(authority, SHA256())
    )
    leaf = (
        _certificate(subject, issuer, server.public_key())
        .add_extension(names, False)
        .add_extension(x509.BasicConstraints(False, None), True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), False)
        .sign(authority, SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "ca.crt").write_bytes(root.public_bytes(pem))
    (folder / "server.crt").write_bytes(leaf.public_bytes(pem))
    plain = serialization.NoEncryption()
    write_secret(folder / "server.key", server.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))


def make_node_key(path: Path) -> None:
    """A node's private key at `path`, its public key beside it in `.pub`."""
    key = ec.generate_private_key(ec.SECP384R1())
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    write_secret(path, key.private_bytes(pem, serialization.PrivateFormat.OpenSSH, plain))
    openssh = serialization.Encoding.OpenSSH
    public = key.public_key().public_bytes(openssh, serialization.PublicFormat.OpenSSH)
    path.with_name(path.name + ".pub").write_bytes(public)


def write_secret(path: Path, content: bytes) -> None:
    """For its owner's eyes alone, from the first byte on."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=_DAYS))
    )
