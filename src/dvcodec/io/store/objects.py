"""Object stores (S3, GCS, Azure) and web servers, on obstore: Rust's object_store (extra ``remote``).

obstore reads each environment variable independently: it combines a pair of keys with a session token that belongs to
another pair, takes an empty variable for a value, and does not read AWS's configuration files. So these cases are
resolved first, and obstore is passed the result.
"""

from __future__ import annotations

import configparser
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import unquote, urlsplit

from dvcodec.core.errors import MissingExtra, UsageError
from dvcodec.core.extras import LazyModule
from dvcodec.io.store.base import Fetched, Requests, Store, StoredObject
from dvcodec.io.store.errors import ObjectExists, Reason, StoreError, error_text, store_error, without_secrets
from dvcodec.io.store.options import RetryPolicy, StoreOptions, suggestion

if TYPE_CHECKING:
    import obstore
else:
    obstore = LazyModule("obstore", "remote")

Result = TypeVar("Result")
PAGE = 1000
"""Objects per page of a listing."""
_INSTANCE_METADATA = "/latest/api/token"
"""object_store requests this from AWS's instance metadata service if it has no credentials."""
_PART_BYTES = 5 << 20
"""obstore uploads larger objects in parts of this size."""
_MOST_WITHOUT_RANGES = 1 << 30
"""Maximum size of a file read whole because its web server does not support byte ranges."""
_PERHAPS_DONE = (Reason.UNAVAILABLE, Reason.TIMEOUT, Reason.THROTTLED)
"""Answers to a write that the store may have done all the same."""
_NO_KEY = re.compile(r"(?:^|/)\.{0,2}(?:/|$)|[\x00-\x1f\x7f]").search
"""What object_store's paths do not have: an empty segment, ``.``, ``..`` or a control character."""
_PROCESS: dict[str, int] = {}
"""``id``: the process that made the first request."""


class ObjectStore(Store):
    """A bucket, a container or a web server.

    Args:
        client: an obstore client.
        root: see `Store`.
        options: options of the store.
        query: query of a web address; never shown, since it may be a signature.
        is_compatible: whether it is a server of S3's protocol, but not known to be S3.
        in_parts: makes a client with its own retries, for multipart uploads: only the client can retry a part.
    """

    reports_size = True
    lists_by_page = True

    def __init__(
        self,
        client: Any,
        root: str,
        options: StoreOptions,
        *,
        in_parts: Callable[[], Any],
        query: str = "",
        is_compatible: bool = False,
    ) -> None:
        self.root = root
        self._in_parts = lru_cache(maxsize=1)(in_parts)
        self._client = client
        self._requests = Requests(options.retry, options.max_concurrency)
        self._query = query
        self._is_unproven = is_compatible
        self._is_web = root.lower().startswith("http")

    def get(self, key: str, start: int | None = None, stop: int | None = None, *, etag: str | None = None) -> Fetched:
        """Read an object or a byte range; see `Store.get`. A server without byte ranges sends the whole object."""
        options: dict[str, Any] = {}
        if start is not None:
            options["range"] = {"offset": start} if stop is None else (start, stop)
        if etag is not None and not etag.startswith("W/"):  # a weak ETag never matches
            options["if_match"] = etag

        def fetch() -> Fetched:
            answer = obstore.get(self._client, key, options=cast("Any", options))
            data = memoryview(cast("Any", answer.bytes()))
            first, end = answer.range
            if len(data) != end - first:
                words = f"expected {end - first} bytes, got {len(data)}"
                raise store_error(self.url(key), "read", words, Reason.UNAVAILABLE)
            return Fetched(data, first, _object(answer.meta))

        def work(_attempt: int) -> Fetched:
            try:
                return fetch()
            except Exception as err:  # noqa: BLE001  (`_error` re-raises errors that are not the client's)
                error = err if isinstance(err, StoreError) else self._error(key, "read", err)
                if error.reason is not Reason.NOT_PARTIAL or self._is_web:
                    raise error from None
            # Object stores support byte ranges: the object is empty, or the response is not the store's.
            found = _object(obstore.head(self._client, key))
            if found.size:
                words = "the response is not the requested byte range"
                raise store_error(self.url(key), "read", words, Reason.UNAVAILABLE)
            return Fetched(memoryview(b""), 0, found)

        try:
            return self._make("get", key, "read", work, lambda found: len(found.data))
        except StoreError as err:
            if err.reason is not Reason.NOT_PARTIAL or start is None:
                raise
        options.pop("range")

        def whole(_attempt: int) -> Fetched:
            answer = obstore.get(self._client, key, options=cast("Any", options))
            data = bytearray()
            for piece in answer.stream():
                data += memoryview(cast("Any", piece))
                if len(data) > _MOST_WITHOUT_RANGES:
                    words = f"the server has no byte ranges, and the file is larger than {_MOST_WITHOUT_RANGES} bytes"
                    raise store_error(self.url(key), "read", words, Reason.NOT_PARTIAL)
            return Fetched(memoryview(bytes(data)), 0, _object(answer.meta))

        return self._make("get", key, "read", whole, lambda found: len(found.data))

    def head(self, key: str) -> StoredObject:
        """Return size and ETag of an object; see `Store.head`."""

        def work(_attempt: int) -> StoredObject:
            found = _object(obstore.head(self._client, key))
            if not self._is_web and found.etag is None and not found.modified_ms:
                words = "the response has neither ETag nor Last-Modified"
                raise store_error(self.url(key), "read", words, Reason.UNAVAILABLE)
            return found

        try:
            return self._make("head", key, "read", work)
        except StoreError as err:
            if err.reason not in (Reason.DENIED, Reason.OTHER):
                raise
            error = err
        # The response to a HEAD has no body; the one to a GET shows whether credentials have expired. And a signed web
        # address is valid for one method only.
        found = self.get(key, 0, 1).found
        if self._is_web:
            return found
        raise error

    def list_all(self, folder: str = "") -> Iterator[StoredObject]:
        """Yield all objects below a folder; see `Store.list_all`. An interrupted listing resumes after its last name.

        Raises:
            StoreError: it cannot be listed, was interrupted and its names are not in order, or the server repeats it.
        """
        last, ordered, resumed = "", True, False
        mark, pages = "", 0
        stream: Any = None

        def work(attempt: int) -> list[Any]:
            nonlocal stream, resumed
            if attempt and last and not ordered:
                words = "the listing was interrupted, and its names are not in order"
                raise store_error(self.url(folder), "list", words, Reason.OTHER)
            if stream is None or attempt:
                resumed = bool(last)
                stream = iter(obstore.list(self._client, folder or None, offset=last or None, chunk_size=PAGE))
            return list(next(stream, ()))

        while True:
            try:
                page = self._make("list", folder, "list", work)
            except StoreError as err:
                if err.reason is Reason.NO_OBJECT:  # so some servers report a missing folder
                    return
                raise
            # Azure cannot start a listing after a name: it lists from the beginning again.
            found = [meta for meta in page if not resumed or meta["path"] > last]
            names = [last, *(meta["path"] for meta in found)]
            if mark and mark in names[1:]:
                words = f"the server repeats the listing: {mark} for the second time"
                raise store_error(self.url(folder), "list", words, Reason.OTHER)
            pages += 1
            if found and not pages & (pages - 1):  # after 1, 2, 4, .. pages: so a loop of any length is found
                mark = names[1]
            ordered = ordered and all(one < other for one, other in pairwise(names))
            last = names[-1]
            yield from map(_object, found)
            if len(page) < PAGE:
                return

    def list_folder(self, folder: str = "") -> tuple[list[str], list[StoredObject]]:
        """Return what is in a folder; see `Store.list_folder`."""
        try:
            found = self._make(
                "list", folder, "list", lambda _: obstore.list_with_delimiter(self._client, folder or None)
            )
        except StoreError as err:
            if err.reason is Reason.NO_OBJECT:
                return [], []
            raise
        folders = [str(name).rstrip("/").rpartition("/")[2] for name in found["common_prefixes"]]
        return folders, [_object(meta) for meta in found["objects"]]

    def put(self, key: str, data: bytes) -> None:
        """Write an object; see `Store.put`."""
        client = self._client if len(data) <= _PART_BYTES else self._in_parts()
        self._make("put", key, "write", lambda _: obstore.put(client, key, data), lambda _: len(data))

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write an object that must not exist; see `Store.put_if_absent`.

        If an attempt failed although the store may have done it, an existing object with the same bytes counts as
        written by it.
        """
        lost: StoreError | None = None

        def work(_attempt: int) -> None:
            nonlocal lost
            try:
                obstore.put(self._client, key, data, mode="create")
            except NotImplementedError as err:
                raise UsageError(f"{self.url(key)}: {error_text(err)}") from None
            except Exception as err:  # noqa: BLE001  (`_error` re-raises errors that are not the client's)
                error = self._error(key, "write", err)
                # Not `self.get`, which would wait for a second request slot.
                if error.reason is Reason.EXISTS and lost and obstore.get(self._client, key).bytes() == data:
                    return
                if error.reason in _PERHAPS_DONE:
                    lost = error
                raise error from None

        try:
            self._make("put", key, "write", work, lambda _: len(data))
        except StoreError as error:
            if lost is None or error.reason is Reason.EXISTS:
                raise
            raise lost from error  # the store may refuse the last attempt, and have done the lost one

    def check_exclusive(self, key: str) -> None:
        """Check that a server does not ignore ``If-None-Match``, as older ones do; see `Store.check_exclusive`."""
        if not self._is_unproven:
            return
        folder, slash, _ = key.rpartition("/")
        probe = f"{folder}{slash}.exclusive.{secrets.token_hex(8)}.partial"
        self.put_if_absent(probe, b"1")
        try:
            self.put_if_absent(probe, b"2")
        except ObjectExists:
            self._is_unproven = False
        finally:
            with suppress(StoreError):
                self.delete(probe)
        if self._is_unproven:
            raise UsageError(
                f"{self.root}: the server ignores If-None-Match: an object that exists is replaced, so a commit could "
                "replace that of another writer"
            )

    def delete(self, key: str) -> None:
        """Delete an object; see `Store.delete`."""

        def work(attempt: int) -> None:
            try:
                obstore.delete(self._client, key)
            except FileNotFoundError:
                if not attempt:  # on a retry: the attempt whose response was lost succeeded
                    raise
            except TypeError:  # obstore's for a path that it cannot parse
                raise UsageError(f"{self.url(key)}: not a valid key") from None

        self._make("delete", key, "delete", work)

    def url(self, key: str) -> str:
        """Return the URL of a key, as users spell it."""
        return f"{self.root}/{key}{'?..' if self._query else ''}"

    def _make(
        self,
        kind: str,
        key: str,
        action: str,
        work: Callable[[int], Result],
        size: Callable[[Result], int] | None = None,
    ) -> Result:
        _refuse_fork(self.url(key))

        def checked(attempt: int) -> Result:
            try:
                return work(attempt)
            except (StoreError, UsageError):
                raise
            except Exception as err:  # noqa: BLE001  (`_error` re-raises errors that are not the client's)
                raise self._error(key, action, err) from None
            except BaseException as err:
                if type(err).__name__ != "PanicException":  # a panic in Rust; Python has no class for it
                    raise
                words = f"the client panicked: {error_text(err)}"
                raise store_error(self.url(key), action, words, Reason.OTHER) from None

        return self._requests.make(kind, self.url(key), checked, size)

    def _error(self, key: str, action: str, err: Exception) -> StoreError:
        from obstore import exceptions  # noqa: PLC0415

        if isinstance(err, exceptions.InvalidPathError) and action == "list" and not _NO_KEY(key.strip("/") or "x"):
            words = f"an object has a key that cannot be named: {error_text(err)}"
            return store_error(self.url(key), action, words, Reason.OTHER)
        if isinstance(err, (ValueError, exceptions.InvalidPathError)):
            raise UsageError(f"{self.url(key)}: {error_text(err)}") from None
        if not isinstance(err, (exceptions.BaseError, OSError)):
            raise err
        if self.root.lower().startswith("s3") and _INSTANCE_METADATA in str(err):
            what = "no credentials in storage_options, the environment or AWS's files, and no instance metadata service"
            return store_error(self.url(key), action, what, Reason.BAD_CREDENTIALS)
        kinds = (
            (exceptions.AlreadyExistsError, Reason.EXISTS),
            (exceptions.PreconditionError, Reason.CHANGED),
            (exceptions.PermissionDeniedError, Reason.DENIED),
            (exceptions.UnauthenticatedError, Reason.BAD_CREDENTIALS),
            (FileNotFoundError, Reason.NO_OBJECT),
        )
        reason = next((why for kind, why in kinds if isinstance(err, kind)), None)
        return store_error(self.url(key), action, str(err), reason)


def _refuse_fork(url: str) -> None:
    """Raise `UsageError` in a forked process whose parent has made requests: it lacks the client's threads."""
    if _PROCESS.setdefault("id", os.getpid()) != os.getpid():
        raise UsageError(
            f"{url}: a forked process cannot use object stores if its parent has used them: start processes by "
            "'spawn' or 'forkserver' (multiprocessing.set_start_method)"
        )


def _object(meta: Any) -> StoredObject:
    modified = meta.get("last_modified")
    return StoredObject(
        meta["path"],
        int(meta["size"]),
        meta.get("e_tag"),
        None if modified is None else int(modified.timestamp() * 1000),
    )


_PREFIXES = {"s3": "AWS_", "az": "AZURE_", "gs": "GOOGLE_"}
_READ = re.compile(r"(?:AWS|AZURE|GOOGLE|GCP)_|SERVICE_ACCOUNT|(?:HTTPS?|ALL|NO)_PROXY$", re.IGNORECASE)
_FLAG = re.compile(
    r"(?:AWS|AZURE|GOOGLE)_(ALLOW_HTTP|SKIP_SIGNATURE|VIRTUAL_HOSTED_STYLE_REQUEST|REQUEST_PAYER|UNSIGNED_PAYLOAD|"
    r"S3_EXPRESS|DISABLE_TAGGING|IMDSV1_FALLBACK|USE_AZURE_CLI|USE_EMULATOR|USE_FABRIC_ENDPOINT)"
)
_ENDPOINTS = {"s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"), "az": ("AZURE_ENDPOINT",)}
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_ENDPOINT_OF_S3 = "aws_endpoint_url_s3"
"""This option takes precedence over all environment variables."""
_KEY, _SECRET, _TOKENS = "access_key_id", "secret_access_key", ("session_token", "token")
_ROLES = (
    ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"),
    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",),
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
)
"""Variables of an identity that obstore assumes; without one of them, it does not."""
_LOGINS = frozenset({"role_arn", "sso_session", "sso_start_url", "credential_process", "web_identity_token_file"})


def variables() -> tuple[tuple[str, str], ...]:
    """Return the environment variables that a client reads."""
    return tuple(sorted((name, value) for name, value in os.environ.items() if _READ.match(name)))


def files_state() -> tuple[tuple[int, int] | None, ...]:
    """Return time and size of AWS's files: if they change, credentials must be read again."""
    return tuple(map(_state, _files()))


def complete(scheme: str, options: StoreOptions, values: dict[str, Any]) -> Any:
    """Add to `values` the settings that obstore would misread in the environment or AWS's files, or not read at all.

    The precedence is that of AWS's own tools: a profile in the options, then keys in the options or the environment,
    then the profile that the environment names, or ``default``. An empty variable counts as unset.

    Args:
        scheme: ``s3``, ``gs``, ``az``, ``http`` or ``https``.
        options: options of the store.
        values: options for obstore; modified.

    Returns:
        A credential provider for obstore; None if `values` or obstore's own defaults suffice.

    Raises:
        UsageError: an invalid endpoint, half a pair of keys, or a profile that cannot be read.
        MissingExtra: the profile needs boto3, which is not installed.
    """
    _check_endpoint(options.endpoint, scheme)
    prefix = _PREFIXES.get(scheme)
    for name in os.environ:
        flag = _FLAG.fullmatch(name)
        if flag and prefix is not None and name.startswith(prefix) and not os.environ[name]:
            _set(values, flag[1].lower(), "false")
    if scheme != "s3":
        return None
    unsigned = options.anonymous or (_variable("AWS_SKIP_SIGNATURE") or "").lower() in ("true", "1", "yes", "on")
    provider = None if unsigned else _credentials(options, values)
    if any(os.environ.get(name) == "" for name in _REGIONS):
        _set(values, "region", next(filter(None, map(_variable, _REGIONS)), "us-east-1"), "default_region")
    if options.endpoint is None and any(os.environ.get(name) == "" for name in _ENDPOINTS["s3"]):
        named = next(filter(None, map(_variable, _ENDPOINTS["s3"])), None)
        region = _get(values, "region") or next(filter(None, map(_variable, _REGIONS)), "us-east-1")
        values.setdefault(_ENDPOINT_OF_S3, named or f"https://s3.{region}.amazonaws.com")
    return provider


def root_certificate(values: dict[str, Any]) -> dict[str, Any]:
    """Remove the root certificate (path of a PEM file, or its text) from `values` and return it as a client option.

    Raises:
        UsageError: the file cannot be read.
    """
    given = values.pop("root_certificate", None)
    if given is None:
        return {}
    if not given.lstrip().startswith("-----BEGIN"):
        try:
            given = Path(given).read_text("ascii", errors="replace")
        except OSError as err:
            raise UsageError(f"storage_options: root_certificate: {err.strerror}: {err.filename}") from None
    return {"root_certificate": given}


def rejected_variable(err: BaseException, values: dict[str, Any]) -> str | None:
    """Return the environment variable whose value a client's error quotes, unless an option has that value."""
    quoted = re.search(r'"([^"]*)" as ', str(err))
    if quoted is None or quoted[1] in values.values():
        return None
    return next((name for name, value in variables() if value == quoted[1]), None)


def _variable(name: str) -> str | None:
    return os.environ.get(name) or None


def _get(values: dict[str, Any], *names: str) -> str | None:
    """Return the first option that is set, under its name with or without ``aws_``."""
    return next((values[one] for name in names for one in (f"aws_{name}", name) if values.get(one)), None)


def _set(values: dict[str, Any], name: str, value: str, *others: str) -> None:
    """Set an option unless it is set under another name."""
    known = {one for short in (name, *others) for one in (short, f"aws_{short}", f"azure_{short}", f"google_{short}")}
    if not known & values.keys():
        values[name] = value


def _check_endpoint(endpoint: str | None, scheme: str) -> None:
    """Check the endpoint from the options or else the environment: an invalid one makes the client panic."""
    given = [("storage_options: endpoint", endpoint)]
    if endpoint is None:
        given = [(name, _variable(name)) for name in _ENDPOINTS.get(scheme, ())]
    for name, value in given:
        if value is None:
            continue
        try:
            parts = urlsplit(value)
            parts.port  # noqa: B018  (parsed on access)
            good = parts.scheme.lower() in ("http", "https") and bool(parts.hostname)
        except ValueError:
            good = False
        if not good:
            shown = re.sub(r"^([a-z]+://)?.*@", r"\1..@", value, flags=re.IGNORECASE | re.DOTALL)
            raise UsageError(f"{name} must be a URL such as http://localhost:9000, not {shown!r}")


def _credentials(options: StoreOptions, values: dict[str, Any]) -> Any:
    if options.profile is None:
        if _check_halves(values):
            return _pair(values)
        identities = ("AWS_ACCESS_KEY_ID",), *_ROLES
        if _get(values, *_TOKENS) or any(all(map(_variable, names)) for names in identities):
            return None
    return _profile(options, values)


def _check_halves(values: dict[str, Any]) -> bool:
    """Return whether the options have a pair of keys. The environment may complete half a pair, unless it contradicts.

    Raises:
        UsageError: half a pair that the environment does not complete.
    """
    halves = (_get(values, _KEY), _get(values, _SECRET))
    variable = (_variable("AWS_ACCESS_KEY_ID"), _variable("AWS_SECRET_ACCESS_KEY"))
    names = (f"aws_{_KEY}", f"aws_{_SECRET}")
    if not any(halves):
        if any(variable) and not all(variable):
            present, missing = names if variable[0] else names[::-1]
            raise UsageError(f"{present.upper()} is set in the environment, but {missing.upper()} is not")
        return False
    for half, other in ((0, 1), (1, 0)):
        if halves[half] is None and (variable[half] is None or variable[other] not in (None, halves[other])):
            raise UsageError(f"storage_options has {names[other]} but no matching {names[half]}")
    return all(halves)


def _pair(values: dict[str, Any]) -> Callable[[], Any] | None:
    """Return a provider of the keys in `values` if obstore would add the environment's session token to them."""
    if _get(values, *_TOKENS) or not {"AWS_SESSION_TOKEN", "AWS_TOKEN"} & os.environ.keys():
        return None
    given = {"access_key_id": _get(values, _KEY), "secret_access_key": _get(values, _SECRET)}
    return lambda: {**given, "token": None, "expires_at": None}


def _files() -> tuple[str, str]:
    home = Path("~/.aws").expanduser()
    return (
        _variable("AWS_CONFIG_FILE") or str(home / "config"),
        _variable("AWS_SHARED_CREDENTIALS_FILE") or str(home / "credentials"),
    )


def _state(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116  (called for each file that is opened)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _settings(name: str) -> dict[str, str]:
    """Return the settings of a profile in AWS's files.

    Raises:
        UsageError: a file cannot be parsed; the error does not quote it.
    """
    found = configparser.RawConfigParser(default_section="")
    for file in _files():
        try:
            found.read(file, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError) as err:
            line = getattr(err, "lineno", None) or next((number for number, _ in getattr(err, "errors", ())), None)
            where = f"{file}, line {line}" if line else file
            raise UsageError(f"AWS profile {name!r}: {where} cannot be parsed") from None
    settings: dict[str, str] = {}
    for section in (f"profile {name}", name):
        settings |= dict(found[section]) if found.has_section(section) else {}
    return settings


def _profile(options: StoreOptions, values: dict[str, Any]) -> Any:
    """Add the settings of a profile to `values`; return a credential provider if the profile needs a login."""
    named = options.profile
    name = named or _variable("AWS_PROFILE") or "default"
    settings = _settings(name)
    if not settings:
        if name == "default" and named is None:
            return None
        config, credentials = _files()
        raise UsageError(f"AWS profile {name!r} is neither in {config} nor in {credentials}")
    # The environment takes precedence over a profile that the options do not name.
    if "region" in settings and (named or not any(map(_variable, _REGIONS))):
        _set(values, "region", settings["region"], "default_region")
    endpoint_is_set = options.endpoint is not None or (not named and any(map(_variable, _ENDPOINTS["s3"])))
    if "endpoint_url" in settings and not endpoint_is_set:
        values[_ENDPOINT_OF_S3] = settings["endpoint_url"].rstrip("/")
    if "aws_access_key_id" in settings and "role_arn" not in settings:
        for name in (_KEY, _SECRET, *_TOKENS):
            values.pop(name, None)
        keys = (f"aws_{_KEY}", f"aws_{_SECRET}", "aws_session_token")
        values |= {key: settings[key] for key in keys if key in settings}
        return _pair(values)
    if not _LOGINS & set(settings):  # then keys in the options count
        return _pair(values) if _check_halves(values) else None
    try:
        import boto3  # noqa: PLC0415  (extra "aws")
        from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415
    except ImportError:
        raise MissingExtra("boto3", "aws") from None
    try:
        return Boto3CredentialProvider(boto3.Session(profile_name=name))
    except Exception as err:  # noqa: BLE001  (each login method has its own errors)
        raise UsageError(f"AWS profile {name!r}: {without_secrets(error_text(err))}") from None


_ENDPOINT = {"s3": "aws_endpoint_url_s3", "gs": "base_url"}
"""Keys of the endpoint; only that of S3 takes precedence over the environment."""


def connect(scheme: str, authority: str, query: str, options: StoreOptions, *, spelled: str) -> ObjectStore:
    """Return a client for a bucket, a container or a web server.

    Args:
        scheme: ``s3``, ``gs``, ``az``, ``http`` or ``https``.
        authority: bucket, container or host: what is between ``://`` and the next slash.
        query: query of a web address, with its question mark.
        options: options of the store.
        spelled: the scheme as the user spells it, for errors.

    Raises:
        MissingExtra: obstore is not installed, or boto3 for a profile that needs it.
        UsageError: an unknown option, or a value that the store rejects.
    """
    try:
        import obstore.store as clients  # noqa: PLC0415  (extra "remote")
        from obstore.exceptions import BaseError, UnknownConfigurationKeyError  # noqa: PLC0415
    except ImportError:
        raise MissingExtra("obstore", "remote") from None
    values: dict[str, Any] = dict(options.values)
    if options.anonymous:
        values["skip_signature"] = "true"
    if options.endpoint is not None:
        values[_ENDPOINT.get(scheme, "azure_endpoint")] = options.endpoint.rstrip("/")
    provider = complete(scheme, options, values)
    extra = root_certificate(values)
    shown = authority.rpartition("@")[2] if scheme.startswith("http") else authority  # without the password
    root = f"{spelled}://{shown}"
    container, has_account, host = authority.partition("@")
    if scheme == "az" and has_account:
        values.setdefault("azure_storage_account_name", host.partition(".")[0])
    kinds: dict[str, Any] = {"s3": clients.S3Store, "gs": clients.GCSStore, "az": clients.AzureStore}
    given: dict[str, Any] = {"config": values, "client_options": extra or None}
    if provider is not None:
        given["credential_provider"] = provider
    if scheme in ("http", "https"):
        given = {"client_options": {"allow_http": scheme == "http", **values, **extra}}

    def client(again: Any) -> Any:
        if scheme in kinds:
            return kinds[scheme](container if scheme == "az" else authority, retry_config=again, **given)
        return clients.HTTPStore(f"{scheme}://{authority}/{query}", retry_config=again, **given)

    try:
        made = client({"max_retries": 0})  # `Requests` retries
    except UnknownConfigurationKeyError as err:
        name = str(err).partition("'")[2].partition("'")[0]
        raise UsageError(f"storage_options: {name!r} is not an option of {scheme}{suggestion(name, scheme)}") from None
    except (BaseError, ValueError) as err:
        text = error_text(err)
        if "Duplicate key" in text:
            name = text.partition("Duplicate key ")[2].partition(" ")[0]
            raise UsageError(f"storage_options: {name} is given in two spellings") from None
        where = rejected_variable(err, values) or f"storage_options for {root}"
        raise UsageError(f"{where}: {without_secrets(text)}") from None
    in_parts = partial(client, _retries(options.retry))
    is_compatible = scheme == "s3" and any("endpoint" in name and "metadata" not in name for name in values)
    return ObjectStore(made, root, options, query=query, in_parts=in_parts, is_compatible=is_compatible)


def _retries(policy: RetryPolicy) -> dict[str, Any]:
    backoff = {
        "init_backoff": timedelta(seconds=policy.init_backoff),
        "max_backoff": timedelta(seconds=policy.max_backoff),
        "base": 2,
    }
    retry_timeout = timedelta(seconds=policy.timeout)
    return {"max_retries": policy.max_retries, "retry_timeout": retry_timeout, "backoff": backoff}


def web_address(url: str) -> tuple[str, str, str]:
    """Return authority, query and key of a web address."""
    parts = urlsplit(url)
    return parts.netloc, f"?{parts.query}" if parts.query else "", unquote(parts.path).strip("/")
