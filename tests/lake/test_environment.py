"""Credentials are of one identity, whatever else the environment has; an empty variable is one that is not set."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dvcodec.core.errors import MissingExtra, UsageError
from dvcodec.io.store import StoreOptions, open_store
from dvcodec.io.store.objects import ObjectStore, complete
from lake.servers import NOWHERE
from lake.web import Quiet, serving

pytest.importorskip("obstore")

PAIR = {"aws_access_key_id": "OPTION", "aws_secret_access_key": "s"}
OTHER = {"AWS_ACCESS_KEY_ID": "ENV", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "TOKEN"}
PROFILE = "[p1]\naws_access_key_id = P1\naws_secret_access_key = s\n"
DEFAULT = PROFILE.replace("p1", "default").replace("P1", "DEFAULT")
USUAL = {"allow_http": "true", "max_retries": "0"}


class Recorder(ThreadingHTTPServer):
    """A server of one object; what a request was signed with is kept."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.seen: list[tuple[str, str | None]] = []


class Answer(Quiet):
    def do_GET(self) -> None:
        assert isinstance(self.server, Recorder)
        signed = self.headers.get("Authorization", "").partition("Credential=")[2].partition("/")[0]
        self.server.seen.append((signed, self.headers.get("x-amz-security-token")))
        self.say(200, {"ETag": '"e"', "Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT"}, b"x")


@pytest.fixture
def server() -> Iterator[Recorder]:
    made = Recorder()
    with serving(made):
        yield made


@pytest.fixture
def credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return tmp_path / "credentials"


def read(options: dict[str, str]) -> None:
    store, key = open_store("s3://lake/k", USUAL | options)
    store.get(key)


@pytest.mark.parametrize(
    ("given", "variables", "file", "sent"),
    [
        (PAIR, {"AWS_SESSION_TOKEN": "TOKEN"}, "", ("OPTION", None)),
        (PAIR | {"aws_session_token": "MINE"}, OTHER, "", ("OPTION", "MINE")),
        ({"profile": "p1"}, OTHER, PROFILE, ("P1", None)),
        ({"profile": "p1"}, OTHER, PROFILE + "aws_session_token = MINE", ("P1", "MINE")),
        ({}, dict.fromkeys(OTHER, ""), DEFAULT, ("DEFAULT", None)),
        (
            {},
            {"AWS_REGION": "", "AWS_ALLOW_HTTP": "", "AWS_ENDPOINT": "", "AWS_PROFILE": ""},
            DEFAULT,
            ("DEFAULT", None),
        ),
        ({}, {"AWS_SKIP_SIGNATURE": "true", "AWS_PROFILE": "none"}, DEFAULT, ("", None)),
        ({"aws_access_key_id": "OPTION"}, {"AWS_SECRET_ACCESS_KEY": "s"}, "", ("OPTION", None)),
        ({}, {"AWS_WEB_IDENTITY_TOKEN_FILE": "none"}, DEFAULT, ("DEFAULT", None)),
    ],
)
def test_one_identity(
    server: Recorder,
    credentials: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, str],
    variables: dict[str, str],
    file: str,
    sent: tuple[str, str | None],
) -> None:
    credentials.write_text(file)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    read(given | {"endpoint": server.url})
    assert server.seen == [sent]


@pytest.mark.parametrize(
    ("url", "options", "is_unproven"),
    [
        ("s3://lake/k", {}, False),
        ("s3://lake/k", {"endpoint": NOWHERE}, True),
        ("s3://lake/k", {"metadata_endpoint": NOWHERE}, False),
        ("az://lake/k", {"endpoint": NOWHERE, "account_name": "a"}, False),
    ],
)
def test_another_server_of_s3_has_to_prove_that_it_excludes(
    url: str, options: dict[str, str], is_unproven: bool
) -> None:
    store, _ = open_store(url, USUAL | options)
    assert isinstance(store, ObjectStore)
    assert store._is_unproven is is_unproven


ROLE = "/latest/meta-data/iam/security-credentials/"
LEVELS: tuple[tuple[str, dict[str, str], dict[str, str], str], ...] = (
    ("", {"anonymous": "true"}, {}, ""),
    ("P1", {"profile": "p1"}, {}, PROFILE),
    ("OPTION", PAIR, {}, ""),
    ("ENV", {}, OTHER, ""),
    (
        "CONTAINER",
        {},
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "/container", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "token"},
        "",
    ),
    ("P2", {}, {"AWS_PROFILE": "p2"}, PROFILE.replace("p1", "p2").replace("P1", "P2")),
    ("DEFAULT", {}, {}, DEFAULT),
    ("ROLE", {}, {"AWS_METADATA_ENDPOINT": ""}, ""),
)
"""What requests are signed with, and the options, variables and file that say so: the first goes before the others."""


class Machine(Answer):
    """Also a container's and a machine's own service of credentials."""

    def do_PUT(self) -> None:
        self.say(200, {}, b"token")

    def do_GET(self) -> None:
        if self.path == ROLE:
            self.say(200, {}, b"role")
        elif self.path.startswith(("/container", ROLE)):
            key = {
                "AccessKeyId": self.path.rpartition("/")[2].upper(),
                "SecretAccessKey": "s",
                "Token": "t",
                "Code": "Success",
            }
            key |= {"Expiration": "2099-01-01T00:00:00Z", "LastUpdated": "2020-01-01T00:00:00Z"}
            self.say(200, {}, json.dumps(key).encode())
        else:
            super().do_GET()


@pytest.mark.parametrize("first", range(len(LEVELS)), ids=[level[0] or "anonymous" for level in LEVELS])
def test_the_first_that_is_present_signs(
    server: Recorder, credentials: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    server.RequestHandlerClass = Machine
    options: dict[str, str] = {}
    for _, given, variables, _ in LEVELS[first:]:
        options |= given
        for name, value in variables.items():
            own = name in ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_METADATA_ENDPOINT")
            monkeypatch.setenv(name, server.url + value if own else value)
    monkeypatch.chdir(credentials.parent)
    Path("token").write_text("t")
    credentials.write_text("".join(file for *_, file in LEVELS[first:]))
    read(options | {"endpoint": server.url, "region": "us-east-1"})
    assert [signed for signed, _ in server.seen] == [LEVELS[first][0]]


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"])
def test_the_endpoint_of_a_profile_that_is_asked_for(
    server: Recorder, credentials: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    credentials.write_text(f"{PROFILE}region = x\nendpoint_url = {server.url}\n")
    monkeypatch.setenv(name, NOWHERE)
    read({"profile": "p1"})
    assert server.seen == [("P1", None)]


SECRET = "geheim"
REFUSED: list[tuple[str, dict[str, Any], dict[str, str], str, str]] = [
    (
        "s3://lake/k",
        {"secret_access_key": SECRET},
        OTHER,
        "",
        "aws_secret_access_key but no matching aws_access_key_id",
    ),
    ("s3://lake/k", {}, {"AWS_ACCESS_KEY_ID": "x"}, "", "AWS_ACCESS_KEY_ID is set in the environment, but AWS_SECRET"),
    ("s3://lake/k", PAIR, {"AWS_ALLOW_HTTP": "perhaps"}, "", "AWS_ALLOW_HTTP: Generic Config error: failed to parse"),
    ("s3://lake/k", {"conditional_put": "etag", "aws_conditional_put": "etag"}, OTHER, "", "in two spellings"),
    ("s3://lake/k", {"endpoint": f"joe:{SECRET}@host"}, OTHER, "", "must be a URL such as http://localhost:9000, not"),
    ("s3://lake/k", {"endpoint": "ftp://host"}, {}, "", "must be a URL such as http://localhost:9000, not 'ftp:"),
    ("s3://lake/k", {}, {}, f"[default]\nkey = x\n{SECRET}\n", "credentials, line 3 cannot be parsed"),
    ("s3://lake/k", {"root_certificate": "/no/such"}, OTHER, "", "root_certificate: No such file or directory: /no"),
    ("s3://*/k", {}, {}, "", "s3://*/k: the URL has no bucket"),
    ("s3://lake/k", {1: 2}, {}, "", "storage_options: keys must be str, not 1"),  # type: ignore[dict-item]
    ("zip://a::nothing://joe:geheim@h/x?sig=geheim", {}, {}, "", "zip://a::nothing://..@h/x?..: "),
]


@pytest.mark.parametrize(("url", "given", "variables", "file", "said"), REFUSED)
def test_what_is_refused_shows_no_secret(
    credentials: Path,
    monkeypatch: pytest.MonkeyPatch,
    url: str,
    given: dict[str, Any],
    variables: dict[str, str],
    file: str,
    said: str,
) -> None:
    pytest.importorskip("fsspec")
    credentials.write_text(file)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError) as failed:
        open_store(url, given)
    assert said in str(failed.value)
    assert SECRET not in str(failed.value)


@pytest.mark.parametrize(
    ("given", "variables", "found"),
    [
        ({}, {}, (None, None)),
        ({}, {"AWS_REGION": ""}, ("us-east-1", None)),
        ({}, {"AWS_REGION": "", "AWS_DEFAULT_REGION": "x"}, ("x", None)),
        ({}, {"AWS_ENDPOINT_URL": "", "AWS_REGION": "eu-central-1"}, (None, "https://s3.eu-central-1.amazonaws.com")),
        ({"aws_region": "x"}, {"AWS_ENDPOINT": "", "AWS_REGION": "y"}, (None, "https://s3.x.amazonaws.com")),
        ({}, {"AWS_ENDPOINT_URL_S3": "", "AWS_ENDPOINT_URL": NOWHERE}, (None, NOWHERE)),
        ({"endpoint": "http://given"}, {"AWS_ENDPOINT_URL": ""}, (None, None)),
        ({}, {"AWS_ENDPOINT_URL": NOWHERE}, (None, None)),
    ],
)
def test_an_empty_region_or_endpoint_is_none(
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, str],
    variables: dict[str, str],
    found: tuple[str | None, str | None],
) -> None:
    """Amazon's own, or that of another variable; where obstore reads the variables rightly, it is left to them."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    options = StoreOptions.of(PAIR | given)
    values = dict(options.values)
    assert complete("s3", options, values) is None
    assert (values.get("region"), values.get("aws_endpoint_url_s3")) == found


@pytest.mark.parametrize("named", ["option", "variable"])
def test_a_profile_that_is_nowhere(credentials: Path, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    credentials.write_text(PROFILE)
    monkeypatch.setenv("AWS_PROFILE", "none" if named == "variable" else "p1")
    with pytest.raises(UsageError, match=r"^AWS profile 'none' is neither in .*no-config nor in .*credentials$"):
        open_store("s3://lake/k", {"profile": "none"} if named == "option" else {})


class TestLogins:
    """Profiles of which boto3 makes keys."""

    def test_keys_of_a_program(self, server: Recorder, credentials: Path, tmp_path: Path) -> None:
        pytest.importorskip("boto3")
        made = {"Version": 1, "AccessKeyId": "MADE", "SecretAccessKey": "s", "SessionToken": "T"}
        (tmp_path / "keys.py").write_text(f"print({json.dumps(made)!r})")
        credentials.write_text(f"[p1]\ncredential_process = {sys.executable} {tmp_path / 'keys.py'}\n")
        read({"profile": "p1", "endpoint": server.url, "aws_region": "x"})
        assert server.seen == [("MADE", "T")]

    def test_a_login_that_fails(self, credentials: Path) -> None:
        pytest.importorskip("boto3")
        credentials.write_text("[p1]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = none\n")
        with pytest.raises(UsageError, match=r"^AWS profile 'p1': The source_profile .none. referenced in"):
            open_store("s3://lake/k", {"profile": "p1"})

    def test_without_boto3(self, credentials: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        credentials.write_text("[p1]\nsso_session = x\n")
        monkeypatch.setitem(sys.modules, "boto3", None)
        with pytest.raises(MissingExtra, match=r"^boto3 is needed here .*'dvcodec\[aws\]'"):
            open_store("s3://lake/k", {"profile": "p1"})
