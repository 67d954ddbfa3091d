"""Web servers of the plain kind: one without byte ranges, one whose addresses are signed for one method alone."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import dvcodec
from cli_runner import run
from dvcodec import RowSet, UsageError, iceberg
from dvcodec.io import open_source
from dvcodec.io.store import StoreError, objects
from lake import web

pytest.importorskip("obstore")


class NoRanges(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class Signed(NoRanges):
    """Answers GET alone, and that only with the signature."""

    def do_GET(self) -> None:
        if self.path.endswith("?sig=x@y"):
            super().do_GET()
        else:
            self.send_error(403)

    def do_HEAD(self) -> None:
        self.send_error(403)


@contextmanager
def serving(folder: Path, handler: Callable[..., NoRanges], tls: ssl.SSLContext | None = None) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *given: handler(*given, directory=str(folder)))
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    with web.serving(server) as url:
        yield url


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    iceberg.write_deletion_vectors(tmp_path / "x.puffin", {"a": RowSet([1, 5])})
    (tmp_path / "x.other").write_bytes((tmp_path / "x.puffin").read_bytes())
    return tmp_path


def test_a_server_without_ranges(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(folder, NoRanges) as url:
        assert dvcodec.verify(f"{url}/x.puffin").ok
        assert dvcodec.decode_at(f"{url}/x.puffin", 4, 44) == RowSet([1, 5])
        with open_source(f"{url}/x.puffin") as source:
            assert bytes(source.read(2, 4)) == (folder / "x.puffin").read_bytes()[2:6]
        assert run("positions", f"{url}/x.other").out == "1\n5\n"
        monkeypatch.setattr(objects, "_MOST_WITHOUT_RANGES", 100)
        with pytest.raises(StoreError, match="has no byte ranges, and the file is larger than 100 bytes"):
            dvcodec.verify(f"{url}/x.puffin")


@pytest.mark.parametrize("name", ["x.puffin", "x.other"])
@pytest.mark.parametrize("part", ["", "@4:44"])
def test_an_address_that_is_signed_for_reading(folder: Path, name: str, part: str) -> None:
    with serving(folder, Signed) as url:
        result = run("positions", f"{url}/{name}?sig=x@y{part}")
        assert (result.out, result.err) == ("1\n5\n", "")
        refused = run("positions", f"{url}/{name}?sig=z")
        assert "denied: 403 Forbidden" in refused.err
        assert (refused.code, refused.err.count("\n"), "sig=" in refused.err) == (2, 1, False)


def test_a_certificate_of_an_own_authority(folder: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is needed")
    made = folder / "tls"
    made.mkdir()
    (made / "extensions").write_text("subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
    for arguments in (
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority",
        "req -newkey rsa:2048 -nodes -keyout own.key -out own.csr -subj /CN=localhost",
        "x509 -req -in own.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out own.pem -days 2 -extfile extensions",
    ):
        subprocess.run(["openssl", *arguments.split()], cwd=made, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made / "own.pem", made / "own.key")
    quick = {"max_retries": 0}
    with serving(folder, NoRanges, context) as address:
        url = address.replace("http://127.0.0.1", "https://localhost")
        for given in (str(made / "ca.pem"), (made / "ca.pem").read_text()):
            assert dvcodec.verify(f"{url}/x.puffin", storage_options=quick | {"root_certificate": given}).ok
        with pytest.raises(StoreError, match=r"certificate is not trusted; .* root_certificate"):
            dvcodec.verify(f"{url}/x.puffin", storage_options=quick)
        with pytest.raises(UsageError, match="pass a URL as str"):
            dvcodec.verify(Path(f"{url}/x.puffin"))
    with serving(folder, NoRanges) as url, pytest.raises(StoreError, match="the server may speak plain http"):
        dvcodec.verify(f"{url.replace('http:', 'https:')}/x.puffin", storage_options=quick)
