"""What the environment and AWS's files say of a store: its endpoint and region, and credentials of one identity.

obstore reads variables of the environment by itself, each on its own: a session token of one pair of keys next to
another pair, and empty ones as if they had a value. What that would mix or misread is decided here and given to it.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dvcodec.core.errors import MissingExtra, UsageError
from dvcodec.io.store.errors import error_text, without_secrets
from dvcodec.io.store.options import StoreOptions

__all__ = ["complete", "files_state", "root_certificate", "variable_to_blame", "variables"]

_PREFIXES = {"s3": "AWS_", "az": "AZURE_", "gs": "GOOGLE_"}
_READ = re.compile(r"(?:AWS|AZURE|GOOGLE|GCP)_|SERVICE_ACCOUNT|(?:HTTPS?|ALL|NO)_PROXY$", re.IGNORECASE)
_FLAG = re.compile(
    r"(?:AWS|AZURE|GOOGLE)_(ALLOW_HTTP|SKIP_SIGNATURE|VIRTUAL_HOSTED_STYLE_REQUEST|REQUEST_PAYER|UNSIGNED_PAYLOAD|"
    r"S3_EXPRESS|DISABLE_TAGGING|IMDSV1_FALLBACK|USE_AZURE_CLI|USE_EMULATOR|USE_FABRIC_ENDPOINT)"
)
_ENDPOINTS = {"s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"), "az": ("AZURE_ENDPOINT",)}
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_ENDPOINT_OF_S3 = "aws_endpoint_url_s3"
"""The option that comes before whatever the environment says."""
_KEY, _SECRET, _TOKENS = "access_key_id", "secret_access_key", ("session_token", "token")
_ROLES = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_LOGINS = frozenset({"role_arn", "sso_session", "sso_start_url", "credential_process", "web_identity_token_file"})


def variables() -> tuple[tuple[str, str], ...]:
    """Return the variables of the environment that a client reads."""
    return tuple(sorted((name, value) for name, value in os.environ.items() if _READ.match(name)))


def files_state() -> tuple[tuple[int, int] | None, ...]:
    """Return what changes when AWS's files are written: a key that is replaced there counts from then on."""
    return tuple(map(_state, _files()))


def complete(scheme: str, options: StoreOptions, values: dict[str, Any]) -> Any:
    """Put what the environment and AWS's files say into `values`, as far as obstore would not read it so.

    As AWS's own tools have it: a profile that is asked for holds; keys, given or in the environment, come before the
    profile that the environment names, or ``default``. An empty variable is one that is not set.

    Args:
        scheme: ``s3``, ``gs``, ``az``, ``http`` or ``https``.
        options: checked.
        values: options for obstore.

    Returns:
        Who gives credentials, where they are not among `values`.

    Raises:
        UsageError: an endpoint that is not an address, half a pair of keys, a profile that cannot be read.
        MissingExtra: boto3 is not installed, and a profile needs it.
    """
    _check_endpoint(options.endpoint, scheme)
    prefix = _PREFIXES.get(scheme)
    for name in os.environ if prefix else ():
        flag = _FLAG.fullmatch(name)
        if flag and name.startswith(prefix or "") and not os.environ[name]:
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
        if not {_ENDPOINT_OF_S3, "aws_endpoint"} & values.keys():
            values[_ENDPOINT_OF_S3] = named or f"https://s3.{region}.amazonaws.com"
    return provider


def root_certificate(values: dict[str, Any]) -> dict[str, Any]:
    """Take the certificate of an own authority out of `values`: the path of a PEM file, or its text.

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


def variable_to_blame(err: BaseException, values: dict[str, Any]) -> str | None:
    """Return the variable whose value an error shows, unless it is an option's."""
    shown = re.search(r'"([^"]*)" as ', str(err))
    if shown is None or shown[1] in values.values():
        return None
    return next((name for name, value in variables() if value == shown[1]), None)


def _variable(name: str) -> str | None:
    return os.environ.get(name) or None


def _get(values: dict[str, Any], *names: str) -> str | None:
    """Return an option of S3, with or without the prefix."""
    return next((values[one] for name in names for one in (f"aws_{name}", name) if values.get(one)), None)


def _set(values: dict[str, Any], name: str, value: str, *others: str) -> None:
    """Set an option that is not given by any of its names."""
    known = {one for short in (name, *others) for one in (short, f"aws_{short}", f"azure_{short}", f"google_{short}")}
    if not known & values.keys():
        values[name] = value


def _check_endpoint(endpoint: str | None, scheme: str) -> None:
    """Refuse what is not an address: the client would panic. An option comes before the variables."""
    given = [("storage_options: endpoint", endpoint)]
    if endpoint is None:
        given = [(name, _variable(name)) for name in _ENDPOINTS.get(scheme, ())]
    for name, value in given:
        if value is None:
            continue
        try:
            parts = urlsplit(value)
            parts.port  # noqa: B018  (it is parsed when it is asked for)
            good = parts.scheme.lower() in ("http", "https") and bool(parts.hostname)
        except ValueError:
            good = False
        if not good:
            shown = re.sub(r"^([a-z]+://)?.*@", r"\1..@", value, flags=re.IGNORECASE | re.DOTALL)
            raise UsageError(f"{name} must be an address such as http://localhost:9000, not {shown!r}")


def _credentials(options: StoreOptions, values: dict[str, Any]) -> Any:
    if options.profile is None:
        if _check_halves(values):
            return _pair(values)
        if _get(values, *_TOKENS) or any(map(_variable, ("AWS_ACCESS_KEY_ID", *_ROLES))):
            return None
    return _profile(options, values)


def _check_halves(values: dict[str, Any]) -> bool:
    """Return whether the options have keys; a half may be completed by the environment's, if that has no other.

    Raises:
        UsageError: a half, and nothing to go with it.
    """
    halves = (_get(values, _KEY), _get(values, _SECRET))
    variable = (_variable("AWS_ACCESS_KEY_ID"), _variable("AWS_SECRET_ACCESS_KEY"))
    names = (f"aws_{_KEY}", f"aws_{_SECRET}")
    if not any(halves):
        if any(variable) and not all(variable):
            there, missing = names if variable[0] else names[::-1]
            raise UsageError(f"{there.upper()} is set in the environment, and {missing.upper()} is not")
        return False
    for at, other in ((0, 1), (1, 0)):
        if halves[at] is None and (variable[at] is None or variable[other] not in (None, halves[other])):
            raise UsageError(f"storage_options has {names[other]}, and no {names[at]} that belongs to it")
    return all(halves)


def _pair(values: dict[str, Any]) -> Callable[[], Any] | None:
    """Return who gives the keys in `values`, where obstore would send the environment's session token with them."""
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
        found = os.stat(path)  # noqa: PTH116  (asked for each file that is opened)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _settings(name: str) -> dict[str, str]:
    """Return what AWS's files say of a profile.

    Raises:
        UsageError: they cannot be parsed; what is in them is not shown.
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
    """Put what a profile says into `values`; return who gives credentials where that takes a login."""
    named = options.profile
    name = named or _variable("AWS_PROFILE") or "default"
    settings = _settings(name)
    if not settings:
        if name == "default" and named is None:
            return None
        config, credentials = _files()
        raise UsageError(f"there is no AWS profile {name!r} in {config} or {credentials}")
    # What the environment says comes before a profile that nobody asked for by name.
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
    if not _LOGINS & set(settings):
        return None
    try:
        import boto3  # noqa: PLC0415  (extra "aws")
        from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415
    except ImportError:
        raise MissingExtra("boto3", "aws") from None
    try:
        return Boto3CredentialProvider(boto3.Session(profile_name=name))
    except Exception as err:  # noqa: BLE001  (botocore has an error of its own for every way to log in)
        raise UsageError(f"AWS profile {name!r}: {without_secrets(error_text(err))}") from None
