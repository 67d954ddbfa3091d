"""Connecting to object stores and web servers through obstore (extra ``remote``)."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

from dvcodec.core.errors import MissingExtra, UsageError
from dvcodec.io.store.environment import complete, rejected_variable, root_certificate
from dvcodec.io.store.errors import error_text, without_secrets
from dvcodec.io.store.objects import ObjectStore
from dvcodec.io.store.options import RetryPolicy, StoreOptions, suggestion

__all__ = ["connect", "web_address"]

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
