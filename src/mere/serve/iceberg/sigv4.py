"""AWS's signature, version 4, of one request to S3: in headers, with the keys of the lake."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime
from urllib.parse import quote

from mere.config import S3Settings

_ALGORITHM = "AWS4-HMAC-SHA256"
_KEPT = "-_.~"
UNSIGNED = "UNSIGNED-PAYLOAD"
PAYLOAD = "x-amz-content-sha256"


def signed(
    s3: S3Settings,
    method: str,
    host: str,
    path: str,
    query: Sequence[tuple[str, str]],
    headers: Mapping[str, str],
    at: datetime,
) -> dict[str, str]:
    """The headers with which the request is S3's own. `path` and `query` as they are meant, not as they are encoded;
    `headers`: those that are signed besides the host."""
    stamp, day = f"{at:%Y%m%dT%H%M%SZ}", f"{at:%Y%m%d}"
    found = {**headers, "host": host, "x-amz-date": stamp, PAYLOAD: headers.get(PAYLOAD, UNSIGNED)}
    if s3.session_token is not None:
        found["x-amz-security-token"] = s3.session_token
    names = sorted(found)
    request = "\n".join(
        [
            method,
            quote(path, safe="/" + _KEPT),
            "&".join(f"{name}={value}" for name, value in sorted(encoded(query))),
            *(f"{name}:{' '.join(found[name].split())}" for name in names),
            "",
            ";".join(names),
            found[PAYLOAD],
        ]
    )
    scope = f"{day}/{s3.region}/s3/aws4_request"
    text = "\n".join([_ALGORITHM, stamp, scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{s3.secret_key}".encode()
    for part in (day, s3.region, "s3", "aws4_request"):
        key = _hmac(key, part)
    signature = _hmac(key, text).hex()
    credential = f"Credential={s3.access_key}/{scope}"
    found["authorization"] = f"{_ALGORITHM} {credential}, SignedHeaders={';'.join(names)}, Signature={signature}"
    return found


def encoded(query: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(quote(name, safe=_KEPT), quote(value, safe=_KEPT)) for name, value in query]


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
