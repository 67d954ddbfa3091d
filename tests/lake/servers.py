"""Real servers of object stores, each on a free port of the loopback in a process of its own."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

BUILT = Path(__file__).parents[2] / "interop" / "servers"
VERSITYGW = BUILT / "bin" / "versitygw"
FAKE_GCS = BUILT / "bin" / "fake-gcs-server"
AZURITE = BUILT / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"

REGION = "eu-central-1"
KEY_ID = "lakekeyid"
SECRET = "lakesecretkey"
# The account that every Azurite has; both are in its documentation.
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

NOWHERE = "http://127.0.0.1:1"
"""Nothing listens there."""
SECONDS_TO_START = 600
_TRIES = 3

# The kernel ends the server when its parent ends, however that happens. Other systems have no such call.
_LAUNCH = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the parent has ended")
os.execvp(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs: its address without a path (``http://127.0.0.1:1234``), and the folder of its data."""

    name: str
    url: str
    folder: Path

    def make_bucket(self, name: str) -> None:
        """Make a bucket, or what Azure calls a container."""
        if self.name == "versitygw":
            (self.folder / name).mkdir()  # every folder is a bucket to it
            return
        if self.name == "moto":
            place = f"<LocationConstraint>{REGION}</LocationConstraint>"
            place = f"<CreateBucketConfiguration>{place}</CreateBucketConfiguration>"
            # It takes whose region it is from here, and looks at nothing else.
            signed = f"AWS4-HMAC-SHA256 Credential={KEY_ID}/20200101/{REGION}/s3/aws4_request"
            request = self._request(
                "PUT", f"/{name}", place.encode(), {"Authorization": signed, "Content-Type": "application/xml"}
            )
        elif self.name == "azurite":
            path = f"/{AZURE_ACCOUNT}/{name}"
            stated = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
            lines = ["PUT", *[""] * 11, *(f"{key}:{value}" for key, value in stated.items())]
            text = "\n".join([*lines, f"/{AZURE_ACCOUNT}{path}", "restype:container"])
            signature = hmac.new(base64.b64decode(AZURE_KEY), text.encode(), hashlib.sha256).digest()
            stated["Authorization"] = f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(signature).decode()}"
            request = self._request("PUT", f"{path}?restype=container", b"", stated | {"Content-Type": ""})
        else:
            request = self._request("POST", "/storage/v1/b?project=lake", json.dumps({"name": name}).encode(), {})
        with urllib.request.urlopen(request, timeout=SECONDS_TO_START):
            pass

    def upload_gcs(self, bucket: str, key: str, data: bytes) -> None:
        """Put an object by Google's JSON interface: fake-gcs-server does not take what object_store sends."""
        path = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(key, safe='')}"
        request = self._request("POST", path, data, {"Content-Type": "application/octet-stream"})
        with urllib.request.urlopen(request, timeout=SECONDS_TO_START):
            pass

    def _request(self, method: str, path: str, data: bytes, headers: dict[str, str]) -> urllib.request.Request:
        return urllib.request.Request(self.url + path, data, headers, method=method)

    def s3_options(self, url: str | None = None) -> dict[str, str]:
        """Storage options of S3, for this server or for the proxy before it at `url`."""
        return {
            "aws_access_key_id": KEY_ID,
            "aws_secret_access_key": SECRET,
            "aws_region": REGION,
            "aws_endpoint_url": url or self.url,
            "aws_allow_http": "true",
            # Where a client would look for credentials if it were given none: nothing leaves this machine.
            "aws_metadata_endpoint": NOWHERE,
        }

    def azure_options(self, url: str | None = None) -> dict[str, str]:
        """Storage options of Azure."""
        return {
            "azure_storage_account_name": AZURE_ACCOUNT,
            "azure_storage_account_key": AZURE_KEY,
            "azure_endpoint": f"{url or self.url}/{AZURE_ACCOUNT}",
            "azure_allow_http": "true",
        }

    def gcs_options(self, url: str | None = None) -> dict[str, str]:
        """Storage options of Google: a service account that signs nothing."""
        account = {"gcs_base_url": url or self.url, "disable_oauth": True}
        account |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        return {"google_service_account_key": json.dumps(account)}


class NotStarted(RuntimeError):
    """A server ended, or did not answer in time."""


def has_moto() -> bool:
    return all(find_spec(name) for name in ("moto", "flask", "flask_cors"))


def has_azurite() -> bool:
    return AZURITE.is_file() and shutil.which("node") is not None


@contextlib.contextmanager
def moto() -> Iterator[Server]:
    """moto's server (group ``lake``). It checks no signature."""

    def command(port: int, _: Path) -> list[str]:
        return [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)]

    with _running("moto", command, "/moto-api/") as server:
        yield server


@contextlib.contextmanager
def versitygw(*, keeps_connections: bool = True) -> Iterator[Server]:
    """versitygw over a temporary folder (`make interop-servers`). It checks signatures.

    It has to close connections for clients on the C++ SDK of AWS (pyarrow): on a connection that is kept, the request
    after the first multipart upload is often answered with "400, An error occurred when parsing the HTTP request".
    """

    def command(port: int, folder: Path) -> list[str]:
        keys = ["--access", KEY_ID, "--secret", SECRET, "--region", REGION]
        # What belongs to an object is kept in extended attributes; not every temporary file system has those.
        beside = [] if _has_attributes(folder) else ["--sidecar", str(folder.parent / "beside")]
        if beside:
            Path(beside[1]).mkdir(exist_ok=True)
        serving = ["--port", f"127.0.0.1:{port}", "--quiet", "--health", "/health"]
        if keeps_connections:
            serving.append("--keep-alive")
        return [str(VERSITYGW), *keys, *serving, "posix", *beside, str(folder)]

    with _running("versitygw", command, "/health") as server:
        yield server


@contextlib.contextmanager
def azurite() -> Iterator[Server]:
    """Azurite's blob service (`make interop-servers`), with everything in memory."""

    def command(port: int, folder: Path) -> list[str]:
        serving = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--silent"]
        return ["node", str(AZURITE), *serving, "--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"]

    with _running("azurite", command, "/") as server:
        yield server


@contextlib.contextmanager
def fake_gcs() -> Iterator[Server]:
    """fake-gcs-server (`make interop-servers`), with everything in memory."""

    def command(port: int, _: Path) -> list[str]:
        serving = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory"]
        return [str(FAKE_GCS), *serving, "-public-host", "127.0.0.1", "-log-level", "error"]

    with _running("fake-gcs-server", command, "/_internal/healthcheck") as server:
        yield server


@contextlib.contextmanager
def _running(name: str, command: Callable[[int, Path], Sequence[str]], health: str) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix=f"lake-{name}-") as folder:
        data = Path(folder) / "data"
        data.mkdir()
        child, url = _start(command, data, Path(folder) / "log", health)
        try:
            yield Server(name, url, data)
        finally:
            _end(child)


def _has_attributes(folder: Path) -> bool:
    try:
        os.setxattr(folder, "user.lake", b"x")
    except (AttributeError, OSError):  # only Linux has the call
        return False
    return True


def _start(
    command: Callable[[int, Path], Sequence[str]], data: Path, log: Path, health: str
) -> tuple[subprocess.Popen[bytes], str]:
    """Start a server and wait until it answers; again on another port, where somebody took the first."""
    for attempt in range(_TRIES):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with log.open("wb") as out:
            child = subprocess.Popen(
                [sys.executable, "-c", _LAUNCH, str(os.getpid()), *command(port, data)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=data.parent,
                start_new_session=True,  # Ctrl-C reaches the tests first, which end the server
            )
        url = f"http://127.0.0.1:{port}"
        try:
            _wait(child, url + health)
        except NotStarted as error:
            _end(child)
            if attempt == _TRIES - 1:
                raise NotStarted(f"{error}: {log.read_text(errors='replace')[-2000:]}") from None
        else:
            return child, url
    raise AssertionError


def _wait(child: subprocess.Popen[bytes], url: str) -> None:
    until = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < until:
        if child.poll() is not None:
            raise NotStarted(f"ended with {child.returncode}")
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except urllib.error.HTTPError:
            return  # it answers
        except OSError:
            time.sleep(0.02)
    raise NotStarted(f"did not answer within {SECONDS_TO_START} s")


def _end(child: subprocess.Popen[bytes]) -> None:
    # The whole group, for servers that start processes of their own.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
