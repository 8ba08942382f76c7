"""The server's certificate."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

from mere.errors import ConfigError
from mere.serve.access.scram import certificate_hash

_END = "-----END CERTIFICATE-----"


def context(certificate: Path, key: Path) -> tuple[ssl.SSLContext, bytes | None]:
    """For the server's side of TLS 1.2 and later; and the certificate's hash, to which a login can be bound."""
    try:
        if stat.S_IMODE(key.stat().st_mode) & 0o007:
            raise ConfigError(f"{key} can be read by anyone.", remedy=f"Close it: chmod 600 {key}")
        found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        found.minimum_version = ssl.TLSVersion.TLSv1_2
        # Never asks on the terminal for the password of a key.
        found.load_cert_chain(certificate, key, password=lambda: "")
        first = certificate.read_text(encoding="ascii").split(_END)[0] + _END
        der = ssl.PEM_cert_to_DER_cert(first[first.index("-----BEGIN CERTIFICATE") :])
    except (OSError, ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"TLS cannot be served with {certificate} and {key}: {error}.",
            remedy="Both have to be PEM files that belong together, and the key has to be without a password.",
        ) from error
    return found, certificate_hash(der)
