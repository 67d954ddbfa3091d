"""Credentials of AWS profiles: what ``~/.aws/config`` and ``~/.aws/credentials`` say, and logins through boto3."""

from __future__ import annotations

import configparser
import os
from pathlib import Path
from typing import Any

from dvcodec.core.errors import MissingExtra, UsageError
from dvcodec.io.store.errors import error_text
from dvcodec.io.store.options import StoreOptions

__all__ = ["profile_credentials"]

_CREDENTIALS = ("access_key_id", "secret_access_key", "session_token", "token")
_CREDENTIALS_ELSEWHERE = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_REGIONS = frozenset({"aws_region", "region", "aws_default_region", "default_region"})
_ENDPOINTS = frozenset({"aws_endpoint", "aws_endpoint_url", "aws_endpoint_url_s3"})
_LOGINS = frozenset({"role_arn", "sso_session", "sso_start_url", "credential_process", "web_identity_token_file"})


def profile_credentials(options: StoreOptions, values: dict[str, Any]) -> Any:
    """Put what a profile of AWS's files says into `values`; return who gives credentials where that takes a login.

    As in AWS's own tools: an explicit profile wins; keys, given or in the environment, come before the
    profile that the environment names, or ``default``.
    """
    named = options.profile
    if named is None:
        given = any(name.removeprefix("aws_") in _CREDENTIALS for name in values)
        if given or any(name in os.environ for name in _CREDENTIALS_ELSEWHERE):
            return None
    name = named or os.environ.get("AWS_PROFILE") or "default"
    home = Path("~/.aws").expanduser()
    config = os.environ.get("AWS_CONFIG_FILE") or home / "config"
    credentials = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials"
    found = configparser.RawConfigParser(default_section="")
    try:
        found.read((config, credentials), encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError) as err:
        raise UsageError(f"AWS profile {name!r}: {error_text(err)}") from None
    settings: dict[str, str] = {}
    for section in (f"profile {name}", name):
        settings |= dict(found[section]) if found.has_section(section) else {}
    if not settings:
        if name == "default" and named is None:
            return None
        raise UsageError(f"there is no AWS profile {name!r} in {config} or {credentials}")
    # The environment comes before a profile that was not named explicitly.
    in_environment = set() if named else {name.lower() for name in os.environ if name.startswith("AWS_")}
    if "region" in settings and not _REGIONS & {*values, *in_environment}:
        values["aws_region"] = settings["region"]
    if "endpoint_url" in settings and options.endpoint is None and not _ENDPOINTS & in_environment:
        values["aws_endpoint"] = settings["endpoint_url"].rstrip("/")
    if "aws_access_key_id" in settings and "role_arn" not in settings:
        keys = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
        values |= {key: settings[key] for key in keys if key in settings}
        return None
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
        raise UsageError(f"AWS profile {name!r}: {error_text(err)}") from None
