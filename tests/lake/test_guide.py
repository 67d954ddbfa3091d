"""What docs/guides/object-stores.md prints is what real servers answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import dvcodec
from dvcodec import RowSet, iceberg
from dvcodec.io import Storage, open_sink
from lake.buckets import Bucket, bucket_of
from lake.conftest import S3
from lake.proxy import Fault, Proxy
from lake.servers import NOWHERE, Server
from test_docs import BLOCK, DOCS, ON_A_SERVER, run_console, run_python

PAGE = DOCS / "guides" / "object-stores.md"
URL = "s3://lake/t/deletes.puffin"
VECTORS = {"s3://lake/t/a.parquet": RowSet([0, 1, 2, 7]), "s3://lake/t/b.parquet": RowSet([42])}
VARIES = re.compile(r"[0-9.]+(?:µs|ms|s)\b|127\.0\.0\.1:\d+")


MADE: set[str] = set()


def lake(server: Server, proxy: Proxy | None = None) -> Bucket:
    """The bucket that the guide speaks of."""
    if server.url not in MADE:
        server.make_bucket("lake")
        MADE.add(server.url)
    return bucket_of(server, "lake", proxy)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Callable[[Bucket], None]:
    """Sets the variables that lead to a bucket."""

    def point(bucket: Bucket) -> None:
        for name, value in bucket.options.items():
            monkeypatch.setenv(name.upper(), value)
        monkeypatch.setenv("NO_COLOR", "1")

    return point


@pytest.mark.parametrize("name", S3)
def test_its_examples_run(
    name: str,
    server_named: Callable[[str], Server],
    environment: Callable[[Bucket], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment(lake(server_named(name)))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    text = PAGE.read_text()
    ran = 0
    for found in BLOCK.finditer(text):
        if ON_A_SERVER.search(text, endpos=found.start()):
            ran += 1
            if found[1] == "python":
                run_python(found[2], names, PAGE)
            else:
                run_console(found[2])
    assert ran >= 8


def printed(kind: str) -> list[str]:
    """Lines of the block of errors after a comment of the guide."""
    block = re.search(rf"<!-- {kind} -->\n```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block
    return block[1].splitlines()


def said(work: Callable[[], object], kind: type[Exception]) -> str:
    with pytest.raises(kind) as raised:
        work()
    return str(raised.value)


class TestErrors:
    @pytest.fixture
    def bucket(self, server_named: Callable[[str], Server], proxy_before: Callable[[Server], Proxy]) -> Bucket:
        server = server_named("versitygw")
        found = lake(server, proxy_before(server))
        iceberg.write_deletion_vectors(URL, VECTORS, storage_options=found.options)
        return found

    def test_the_lines_are_those_of_a_server(self, bucket: Bucket) -> None:
        options = bucket.options | {"max_retries": "0"}

        def read(url: str = URL, **more: str) -> Callable[[], object]:
            return lambda: iceberg.read_deletion_vectors(url, storage_options=options | more)

        def failing(fault: Fault, **more: str) -> Callable[[], object]:
            def work() -> None:
                bucket.watched.fail(fault)
                try:
                    read(**more)()
                finally:
                    bucket.watched.clear()

            return work

        def exclusive() -> None:
            with open_sink(URL, exclusive=True, storage_options=options) as sink:
                sink.write(b"other")

        def changed() -> None:
            storage = Storage(options)
            size = 5 << 20
            with open_sink("s3://lake/t/large.puffin", storage_options=options) as sink:
                sink.write(b"x" * size)
            with storage.open("s3://lake/t/large.puffin") as source:
                source.read(0, 10)
                with open_sink("s3://lake/t/large.puffin", storage_options=options) as sink:
                    sink.write(b"y" * (size + 1))
                source.read(1 << 20, 10)

        def plain() -> None:
            guarded = {key: value for key, value in options.items() if key != "aws_allow_http"}
            iceberg.read_deletion_vectors(URL, storage_options=guarded)

        unsigned = {key: value for key, value in options.items() if "key" not in key}
        cases: list[Callable[[], object]] = [
            read("s3://lake/t/none.puffin"),
            read("s3://laek/t/deletes.puffin"),
            read(aws_secret_access_key="other"),
            lambda: iceberg.read_deletion_vectors(URL, storage_options=unsigned),
            lambda: iceberg.read_deletion_vectors(URL, storage_options=unsigned | {"anonymous": "true"}),
            failing(Fault("error", status=400, code="ExpiredToken", message="The provided token has expired.")),
            read(aws_region="us-east-1"),
            plain,
            failing(Fault("error")),
            failing(
                Fault(
                    "error",
                    status=500,
                    code="InternalError",
                    message="We encountered an internal error. Please try again.",
                )
            ),
            read(aws_endpoint_url=NOWHERE),
            failing(Fault("stall"), timeout="300ms"),
            exclusive,
            changed,
        ]
        lines = [said(case, dvcodec.StoreError) for case in cases]
        assert [VARIES.sub("_", line) for line in lines] == [VARIES.sub("_", line) for line in printed("errors")]

    def test_the_lines_of_wrong_options(self, bucket: Bucket) -> None:
        given: list[dict[str, str]] = [
            bucket.options | {"aws_regoin": "eu-central-1"},
            bucket.options | {"timeout": "soon"},
        ]
        with bucket.watched.watch() as seen:
            lines = [
                said(lambda one=one: iceberg.read_deletion_vectors(URL, storage_options=one), dvcodec.UsageError)  # type: ignore[misc]
                for one in given
            ]
        assert lines == printed("usage errors")
        assert not len(seen[0])


class TestSecrets:
    def test_no_signature_and_no_password_is_shown(self, caplog: pytest.LogCaptureFixture) -> None:
        pytest.importorskip("obstore")
        caplog.set_level("DEBUG", "dvcodec")
        key, host = "hushhush", NOWHERE.partition("://")[2]
        azure = {"azure_storage_account_name": "a", "azure_storage_sas_key": f"sv=1&sig={key}", "allow_http": "true"}
        cases: list[tuple[str, dict[str, str]]] = [
            (f"{NOWHERE}/a?X-Amz-Signature={key}", {}),
            (f"http://user:{key}@{host}/a", {}),
            ("az://lake/a", azure | {"endpoint": NOWHERE}),
            ("s3://lake/a", {"aws_secret_access_key": key}),
            (
                "s3://lake/a",
                {"aws_access_key_id": "a", "aws_secret_access_key": key, "endpoint": NOWHERE, "allow_http": "1"},
            ),
            ("gs://lake/a", {"google_service_account_key": key}),
        ]
        for url, options in cases:
            few = options | {"max_retries": "1", "init_backoff": "1ms"}
            line = said(lambda url=url, few=few: dvcodec.sniff(url, storage_options=few), Exception)  # type: ignore[misc]
            assert key not in line
            assert key not in repr(Storage(options)) + repr(Storage(options).options)
        assert "retry" in caplog.text
        assert key not in caplog.text
