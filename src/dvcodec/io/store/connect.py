"""Connecting to object stores and web servers through obstore (extra ``remote``)."""

from __future__ import annotations

import os
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from dvcodec.core.errors import MissingExtra, UsageError
from dvcodec.io.store.aws_profile import profile_credentials
from dvcodec.io.store.errors import error_text
from dvcodec.io.store.objects import ObjectStore
from dvcodec.io.store.options import StoreOptions, suggestion

__all__ = ["connect", "web_address"]

_ENDPOINT = {"s3": "aws_endpoint_url_s3", "gs": "base_url"}
"""Keys of the endpoint; that of S3 alone comes before whatever the environment says."""


def connect(
    scheme: str, authority: str, query: str, options: StoreOptions, *, spelled: str | None = None
) -> ObjectStore:
    """Return a client of a bucket, a container or a web server.

    Args:
        scheme: ``s3``, ``gs``, ``az``, ``http`` or ``https``.
        authority: what follows ``://`` up to the first slash.
        query: of a web address, with its question mark.
        options: checked.
        spelled: the scheme as the user has it, for errors.

    Raises:
        MissingExtra: obstore is not installed; or boto3, for a profile that needs it.
        UsageError: an option that the store does not know, or a value that it refuses.
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
    _check_endpoint(options.endpoint, scheme)
    shown = authority.rpartition("@")[2] if scheme.startswith("http") else authority  # a password is not shown
    root, again = f"{spelled or scheme}://{shown}", cast("Any", {"max_retries": 0})  # `Requests` repeats them
    client: Any
    try:
        if scheme == "s3":
            provider = None if options.anonymous else profile_credentials(options, values)
            client = clients.S3Store(
                authority, config=cast("Any", values), retry_config=again, credential_provider=provider
            )
        elif scheme == "gs":
            client = clients.GCSStore(authority, config=cast("Any", values), retry_config=again)
        elif scheme in ("http", "https"):
            values = {"allow_http": scheme == "http", **values}
            root = f"{spelled or scheme}://{authority.rpartition('@')[2]}"
            client = clients.HTTPStore(
                f"{scheme}://{authority}/{query}", client_options=cast("Any", values), retry_config=again
            )
        else:
            container, at, host = authority.partition("@")
            if at:
                values.setdefault("azure_storage_account_name", host.partition(".")[0])
            client = clients.AzureStore(container, config=cast("Any", values), retry_config=again)
    except UnknownConfigurationKeyError as err:
        name = str(err).partition("'")[2].partition("'")[0]
        raise UsageError(f"storage_options: {name!r} is not an option of {scheme}{suggestion(name, scheme)}") from None
    except (BaseError, ValueError) as err:
        raise UsageError(f"storage_options for {root}: {error_text(err)}") from None
    return ObjectStore(client, root, options, query=query)


def _check_endpoint(endpoint: str | None, scheme: str) -> None:
    """Refuse invalid addresses: the client would panic."""
    names = {"s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"), "az": ("AZURE_ENDPOINT",)}
    given = [("storage_options: endpoint", endpoint)] if endpoint is not None else []
    given += [(name, os.environ[name]) for name in names.get(scheme, ()) if name in os.environ]
    for name, value in given:
        try:
            parts = urlsplit(value)
            parts.port  # noqa: B018  (parsed on access)
            good = parts.scheme.lower() in ("http", "https") and bool(parts.hostname)
        except ValueError:
            good = False
        if not good:
            raise UsageError(f"{name} must be an address such as http://localhost:9000, not {value!r}")


def web_address(url: str) -> tuple[str, str, str, str]:
    """Return scheme, authority, query and key of a web address."""
    parts = urlsplit(url)
    return parts.scheme.lower(), parts.netloc, f"?{parts.query}" if parts.query else "", unquote(parts.path).strip("/")
