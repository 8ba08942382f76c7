"""Files on S3 for clients without keys: requests are signed for the files of one table, which are new or only read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlsplit

import duckdb
import pyarrow as pa
import pytest
import requests
from pyiceberg.io.fsspec import S3V4RestSigner

from mere.lake.lake import Lake
from mere.lake.query import duckdb as ours
from mere.serve.access.tokens import Tokens
from tests.conftest import OpenSession
from tests.lake import orders
from tests.serve.iceberg.rest import Rest, error, roles, serving
from tests.serve.iceberg.test_read import catalog
from tests.services.postgres import Postgres
from tests.services.s3 import SECRET_KEY, S3Server

ROLES = """
roles:
  all: {tables: "*", write: {refs: "*", schemas: "*"}}
  reader: {tables: "*"}
  gold: {tables: "gold.*", write: {refs: dev, schemas: gold}}
  some: {tables: "*", rows: {gold.orders: id > 1}, history: true}
  present: {tables: "*", history: false}
  branch: {tables: "*", refs: [dev, main]}
"""


@pytest.fixture(scope="module")
def url(postgres_server: Postgres) -> str:
    return postgres_server.new_database("signing")


@pytest.fixture(scope="module")
def lake(url: str, s3_server: S3Server, s3_bucket: str) -> Iterator[Lake]:
    with Lake.create(f"{s3_bucket}/signing", catalog=url, s3=s3_server.settings) as lake:
        lake.branch("dev")
        yield lake


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Tokens:
    return Tokens(tmp_path_factory.mktemp("signing") / "users.tokens")


@pytest.fixture(scope="module")
def rest(lake: Lake, tokens: Tokens) -> Iterator[Rest]:
    """With `gold.orders`, made over REST with keys of its own, as a client makes it."""
    with serving(lake, roles=roles(ROLES), tokens=tokens) as running:
        running.session.auth = ("all", "")
        dev = catalog(running, "dev", **basic("all"), **keys(lake))
        dev.create_namespace("gold")
        dev.create_namespace("hr")
        for name in ("gold.orders", "hr.salaries"):
            dev.create_table(name, orders.ORDERS.schema).append(orders.ORDERS)
        yield running


def basic(user: str) -> dict[str, Any]:
    return {"auth": {"type": "basic", "basic": {"username": user, "password": ""}}}


def keys(lake: Lake) -> dict[str, str]:
    from mere.lake.storage.s3 import pyiceberg_properties

    assert lake.storage.s3 is not None
    return pyiceberg_properties(lake.storage.s3)


def folder(lake: Lake, table: str = "gold.orders") -> str:
    """As a URL of the S3 server."""
    assert lake.storage.s3 is not None
    location = str(lake.at("dev").metadata(table).folder)
    return f"{lake.storage.s3.endpoint}/{location.removeprefix('s3://')}"


def sign(rest: Rest, method: str, uri: str, user: str = "all", table: str = "gold/tables/orders", **more: Any) -> Any:
    asked = {"method": method, "region": "us-east-1", "uri": uri, "headers": {}, **more}
    return rest.post(f"dev/namespaces/{table}/sign", asked, auth=(user, ""))


def send(method: str, signed: requests.Response, data: bytes = b"", **more: str) -> requests.Response:
    told = signed.json()
    headers = {name: values[0] for name, values in told["headers"].items()} | more
    return requests.request(method, told["uri"], headers=headers, data=data, timeout=60)


def test_new_files_are_written_and_read_and_nothing_else_is_done_to_them(rest: Rest, lake: Lake) -> None:
    uri = f"{folder(lake)}/data/region=a%252Fb/ä new+file.parquet"
    assert send("PUT", sign(rest, "PUT", uri), b"rows").status_code == 200
    assert send("GET", sign(rest, "GET", uri)).content == b"rows"
    assert send("GET", sign(rest, "GET", uri), Range="bytes=1-2").content == b"ow"
    assert send("HEAD", sign(rest, "HEAD", uri)).headers["Content-Length"] == "4"
    status, kind, message = error(sign(rest, "PUT", uri))
    assert (status, kind) == (403, "ForbiddenException")
    assert "files cannot be overwritten" in message
    assert error(sign(rest, "DELETE", uri))[0] == 403
    used = sign(rest, "GET", uri)
    assert requests.delete(used.json()["uri"], headers=_flat(used), timeout=60).status_code == 403
    assert SECRET_KEY not in used.text


def _flat(signed: requests.Response) -> dict[str, str]:
    return {name: values[0] for name, values in signed.json()["headers"].items()}


def test_of_two_that_were_signed_at_once_one_is_written(rest: Rest, lake: Lake) -> None:
    uri = f"{folder(lake)}/data/race.parquet"
    first, second = sign(rest, "PUT", uri), sign(rest, "PUT", uri)
    assert send("PUT", first, b"good").status_code == 200
    assert send("PUT", second, b"evil").status_code == 412
    without = {name: value for name, value in _flat(second).items() if name != "if-none-match"}
    assert requests.put(second.json()["uri"], headers=without, data=b"evil", timeout=60).status_code == 403
    assert send("GET", sign(rest, "GET", uri)).content == b"good"


def test_a_large_file_comes_in_parts(rest: Rest, lake: Lake) -> None:
    uri = f"{folder(lake)}/data/large.parquet"
    begun = send("POST", sign(rest, "POST", f"{uri}?uploads"))
    assert begun.status_code == 200
    upload = begun.text.partition("<UploadId>")[2].partition("</UploadId>")[0]
    part = send("PUT", sign(rest, "PUT", f"{uri}?partNumber=1&uploadId={quote(upload, safe='')}"), b"x" * 100)
    assert part.status_code == 200
    whole = (
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>"
        f"<ETag>{part.headers['ETag']}</ETag></Part></CompleteMultipartUpload>"
    )
    done = send("POST", sign(rest, "POST", f"{uri}?uploadId={quote(upload, safe='')}"), whole.encode())
    assert done.status_code == 200, done.text
    assert send("HEAD", sign(rest, "HEAD", uri)).headers["Content-Length"] == "100"


TRICKS: list[Callable[[str, str], str]] = [
    lambda ours, theirs: theirs,
    lambda ours, theirs: ours,
    lambda ours, theirs: ours + "/",
    lambda ours, theirs: f"{ours}/../{theirs.rpartition('/')[2]}/data/x",
    lambda ours, theirs: f"{ours}/data/%2e%2e/%2e%2e/x",
    lambda ours, theirs: f"{ours}/data/%252e%252e/%252e%252e/x",
    lambda ours, theirs: f"{ours}/data/..%2F..%2Fx",
    lambda ours, theirs: f"{ours}/data/..%5C..%5Cx",
    lambda ours, theirs: f"{ours}//data/x",
    lambda ours, theirs: f"{ours}/./x",
    lambda ours, theirs: f"{ours}x/data/x",
    lambda ours, theirs: f"{ours[:-1]}/data/x",
    lambda ours, theirs: f"{ours[:-32]}{'0' * 31}/data/x",
    lambda ours, theirs: f"{ours.upper()}/data/x",
    lambda ours, theirs: ours.replace("/gold/", "/hr/") + "/data/x",
    lambda ours, theirs: f"{ours}/data/x%00",
    lambda ours, theirs: f"{ours}/data/x%0A",
    lambda ours, theirs: f"{ours}/data/x?acl",
    lambda ours, theirs: f"{ours}/data/x?versionId=1",
    lambda ours, theirs: f"{ours}/data/x?list-type=2",
    lambda ours, theirs: f"{ours}/data/x?x-id=1&x-id=2",
    lambda ours, theirs: f"{ours}/data/x#y",
    lambda ours, theirs: ours.partition("/signing")[0] + "?list-type=2&prefix=signing",
    lambda ours, theirs: ours.replace("127.0.0.1", "127.0.0.2") + "/data/x",
    lambda ours, theirs: ours.replace("http://", "https://") + "/data/x",
    lambda ours, theirs: ours.replace("http://", "http://evil@") + "/data/x",
    lambda ours, theirs: ours.replace("http://", "ftp://") + "/data/x",
    lambda ours, theirs: urlsplit(ours).path + "/data/x",
    lambda ours, theirs: "",
]


@pytest.mark.parametrize("trick", range(len(TRICKS)))
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_what_is_not_a_file_of_the_table_gets_no_signature(rest: Rest, lake: Lake, trick: int, method: str) -> None:
    uri = TRICKS[trick](folder(lake), folder(lake, "hr.salaries"))
    for user in ("all", "gold"):
        status, kind, _ = error(sign(rest, method, uri, user))
        assert (status, kind) in ((403, "ForbiddenException"), (400, "BadRequestException")), uri
    assert "credential" not in sign(rest, method, uri).text.lower()


@pytest.mark.parametrize(
    "headers",
    [
        {"x-amz-copy-source": ["/b/k"]},
        {"X-Amz-Copy-Source": ["/b/k"]},
        {"x-amz-acl": ["public-read"]},
        {"x-amz-grant-read": ["x"]},
        {"x-amz-bypass-governance-retention": ["true"]},
        {"x-amz-content-sha256": ["STREAMING-AWS4-HMAC-SHA256-PAYLOAD"]},
        {"x-amz-checksum-crc32": ["a\nb"]},
        {"x-amz-content-sha256": "0" * 64},
        {"x-amz-content-sha256": [1]},
        {"a": ["1"], "A": ["2"]},
        [],
    ],
)
def test_what_would_make_another_request_of_it_is_not_signed(rest: Rest, lake: Lake, headers: object) -> None:
    assert error(sign(rest, "PUT", f"{folder(lake)}/data/other", headers=headers))[0] in (400, 403)


@pytest.mark.parametrize("method", ["POST", "PATCH", "OPTIONS", "", "get", 1, None])
def test_another_method_is_not_signed(rest: Rest, lake: Lake, method: Any) -> None:
    assert error(sign(rest, method, f"{folder(lake)}/data/other"))[0] in (400, 403)


def test_only_who_may_read_all_of_a_table_gets_signatures(rest: Rest, lake: Lake) -> None:
    uri = f"{folder(lake)}/metadata/new"
    may = {
        user: (sign(rest, "GET", uri, user).status_code, sign(rest, "PUT", uri, user).status_code)
        for user in ("all", "reader", "gold", "some", "present", "branch", "nobody")
    }
    assert may == {
        "all": (200, 200),
        "reader": (200, 403),
        "gold": (200, 200),
        "some": (403, 403),
        "present": (403, 403),
        "branch": (403, 403),
        "nobody": (403, 403),
    }
    salaries = f"{folder(lake, 'hr.salaries')}/data/x"
    assert sign(rest, "GET", salaries, "gold", "hr/tables/salaries").status_code == 403
    assert sign(rest, "GET", salaries, "all", "hr/tables/salaries").status_code == 200
    assert rest.post("v1/namespaces/gold/tables/orders/sign", {}, auth=("all", "")).status_code in (400, 404)


def test_a_table_under_another_name_is_signed_for_those_who_read_everything(rest: Rest, lake: Lake) -> None:
    """Its folder has what the table has elsewhere under its first name."""
    lake.branch("moved", "dev")
    lake.rename("hr.salaries", "gold.pay", on="moved")
    uri = f"{folder(lake, 'hr.salaries')}/data/x"
    asked = {"method": "GET", "region": "us-east-1", "uri": uri, "headers": {}}
    path = "moved/namespaces/gold/tables/pay/sign"
    assert rest.post(path, asked, auth=("all", "")).status_code == 200
    assert rest.post(path, asked, auth=("gold", "")).status_code == 403
    lake.delete("moved")


def test_main_and_commits_are_read_and_not_written(rest: Rest, lake: Lake) -> None:
    asked = {"method": "PUT", "region": "us-east-1", "uri": f"{folder(lake)}/data/more", "headers": {}}
    for ref in ("main", lake.resolve("dev").commit.id):
        path = f"{ref}/namespaces/gold/tables/orders/sign"
        assert error(rest.post(path, asked, auth=("all", "")))[0] == 403
        assert rest.post(path, {**asked, "method": "GET"}, auth=("all", "")).status_code == 200


def test_pyiceberg_s_signer_has_its_requests_signed(rest: Rest, lake: Lake) -> None:
    class Asked:
        """As botocore hands it to the signer."""

        method, context = "GET", {"client_region": "us-east-1"}

        def __init__(self, url: str) -> None:
            from email.message import Message

            self.url, self.headers = url, Message()

    table = catalog(rest, "dev", **basic("all")).load_table("gold.orders")
    assert table.io.properties["s3.signer"] == "S3V4RestSigner"
    assert table.io.properties["s3.remote-signing-enabled"] == "true"
    signer = S3V4RestSigner({**table.io.properties, "uri": rest.uri, "header.Authorization": "Basic YWxsOg=="})
    metadata = table.metadata_location.removeprefix("s3://")
    assert lake.storage.s3 is not None
    asked = Asked(f"{lake.storage.s3.endpoint}/{metadata}")
    signer(asked)
    found = requests.get(asked.url, headers=dict(asked.headers), timeout=60)
    assert found.json()["table-uuid"] == str(table.metadata.table_uuid)


def test_spark_writes_and_reads_without_keys(rest: Rest, lake: Lake, tokens: Tokens, spark_on: OpenSession) -> None:
    """S3FileIO signs nothing itself here: it has no keys."""
    spark = spark_on(lake, "main").spark
    _, token = tokens.create("gold", None, timedelta(days=1))
    prefix = "spark.sql.catalog.signed"
    settings = {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "rest",
        f"{prefix}.uri": rest.uri,
        f"{prefix}.warehouse": "dev",
        f"{prefix}.cache-enabled": "false",
        # As everywhere in mere: Iceberg signs for all catalogs of a JVM by the kind of the first.
        f"{prefix}.rest.auth.type": "oauth2",
        f"{prefix}.token": token,
        f"{prefix}.token-refresh-enabled": "false",
        f"{prefix}.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    spark.sql("CREATE TABLE signed.gold.spark AS SELECT id, 'a' AS s FROM range(3)")
    spark.sql("INSERT INTO signed.gold.spark VALUES (9, 'b')")
    spark.sql("DELETE FROM signed.gold.spark WHERE id = 1")
    assert [row.id for row in spark.sql("SELECT id FROM signed.gold.spark ORDER BY id").collect()] == [0, 2, 9]
    assert spark.sql("SELECT count(*) FROM signed.gold.orders").collect() == [(3,)]
    requested = [line for line in rest.told() if line["path"].endswith("/sign")]
    assert {line["user"] for line in requested if line["status"] == 200} >= {"gold"}
    assert [line for line in requested if line["user"] == "gold" and line["status"] >= 500] == []


def test_keys_are_handed_out_where_the_profile_says_so(rest: Rest, lake: Lake, url: str, s3_bucket: str) -> None:
    assert SECRET_KEY not in rest.get("dev/namespaces/gold/tables/orders").text
    credentials = "dev/namespaces/gold/tables/orders/credentials"
    assert rest.get(credentials).json() == {"storage-credentials": []}
    assert lake.storage.s3 is not None
    settings = dataclasses.replace(lake.storage.s3, vends=True)
    with Lake.open(f"{s3_bucket}/signing", catalog=url, s3=settings) as vending:
        with serving(vending, roles=roles(ROLES)) as found:
            dev = catalog(found, "dev", **basic("all"))
            table = dev.load_table("gold.orders")
            before = table.scan().to_arrow().num_rows
            table.append(pa.table({"id": [7], "customer": ["x"], "amount": [1.0]}))
            (given,) = found.get(credentials, auth=("all", "")).json()["storage-credentials"]
            assert given["config"]["s3.secret-access-key"] == SECRET_KEY
            assert table.refresh().scan().to_arrow().num_rows == before + 1
            for user in ("reader", "gold", "some", "present", "branch"):
                for path in ("dev/namespaces/gold/tables/orders", credentials):
                    assert SECRET_KEY not in found.get(path, auth=(user, "")).text, user
            assert SECRET_KEY not in found.log.getvalue()


def test_duckdb_uses_the_keys_that_it_is_handed(lake: Lake, rest: Rest, url: str, s3_bucket: str) -> None:
    assert lake.storage.s3 is not None
    settings = dataclasses.replace(lake.storage.s3, vends=True)
    with Lake.open(f"{s3_bucket}/signing", catalog=url, s3=settings) as vending, serving(vending) as found:
        with duckdb.connect(config={"allow_unsigned_extensions": True}) as connection:
            for name in ("avro", "httpfs", "iceberg"):
                connection.execute(f"LOAD '{ours._extension(name)}'")
            connection.execute(f"ATTACH 'dev' AS dev (TYPE iceberg, ENDPOINT '{found.uri}', AUTHORIZATION_TYPE 'none')")
            (before,) = connection.execute("SELECT count(*) FROM dev.gold.orders").fetchall()[0]
            connection.execute("INSERT INTO dev.gold.orders VALUES (8, 'y', 2.0)")
            assert connection.execute("SELECT count(*) FROM dev.gold.orders").fetchall() == [(before + 1,)]


def test_a_lake_in_a_folder_needs_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    with orders.create(tmp_path_factory.mktemp("local")) as local, serving(local) as rest:
        assert rest.get("main/namespaces/gold/tables/orders").json()["config"] == {}
        asked = {"method": "GET", "uri": "http://127.0.0.1/x", "headers": {}}
        assert error(rest.post("main/namespaces/gold/tables/orders/sign", asked))[0] == 400
