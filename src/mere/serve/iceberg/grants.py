"""How a client gets at the files of a table: where they are, and with which credentials."""

from __future__ import annotations

from urllib.parse import unquote

from mere.lake.storage.s3 import SPARK_KEYS, spark_properties
from mere.names import TableName
from mere.serve.iceberg import signing
from mere.serve.iceberg.call import Call


def settings(call: Call) -> dict[str, str]:
    """For the table that a request is about. The keys of the lake, if the profile gives them out and the role has no
    restrictions; else a place where requests are signed, if the role may have that; else a client has keys of its own.
    """
    s3 = call.lake.storage.s3
    if s3 is None:
        return {}
    found = {"client.region": s3.region, "s3.region": s3.region}
    if s3.endpoint is not None:
        found["s3.endpoint"] = s3.endpoint
    found["s3.path-style-access"] = str(s3.uses_path_style).lower()
    table = named(call) if "view" not in call.path else None
    if keys := vended(call):
        return found | keys
    if table is None or not call.access.may_have_signatures(table):
        return found
    endpoint = signing.endpoint(call.warehouse.name, table)
    return found | {
        "s3.remote-signing-enabled": "true",
        "s3.signer": "S3V4RestSigner",  # as PyIceberg calls it
        "s3.signer.endpoint": endpoint,
        "signer.endpoint": endpoint,
    }


def vended(call: Call) -> dict[str, str]:
    """The keys themselves, by which everything can be read and written."""
    s3 = call.lake.storage.s3
    if s3 is None or not s3.vends or not call.access.role.is_unrestricted:
        return {}
    return {name: value for name, value in spark_properties(s3).items() if name in SPARK_KEYS}


def named(call: Call) -> TableName | None:
    """The table or view of a request: in the path, or in the body where one is created."""
    in_path = next((call.path[part] for part in ("table", "view") if part in call.path), None)
    name = unquote(in_path) if in_path is not None else call.json.get("name") if call.body else None
    return TableName(call.namespace, name) if isinstance(name, str) and "namespace" in call.path else None
