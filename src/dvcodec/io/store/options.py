"""Options of a store, in the spelling of Rust's object_store, which deltalake and polars share.

Keys are case-insensitive. These are the same for all stores:

- ``endpoint`` (or ``endpoint_url``, ``aws_endpoint_url``): URL of the store;
- ``anonymous`` (or ``skip_signature``): do not sign requests;
- ``profile`` (or ``aws_profile``): a profile of AWS's configuration files;
- ``max_retries``, ``retry_timeout``, ``init_backoff``, ``max_backoff``: how often and how long to retry a request;
- ``max_concurrency``: requests at once.

All others go to the store's client unchanged: ``aws_region``, ``google_service_account``,
``azure_storage_account_key``, ``allow_http``, ``timeout``, ``proxy_url``, ...

Durations are numbers of seconds, or text: ``30s``, ``2 min``, ``500ms``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from dvcodec.core.errors import UsageError

DEFAULT_CONCURRENCY = 32
"""Requests at once of one store's client."""
_ALIASES = {
    alias: name
    for name, aliases in {
        "endpoint": "endpoint_url aws_endpoint aws_endpoint_url aws_endpoint_url_s3 azure_endpoint "
        "azure_storage_endpoint google_base_url base_url",
        "skip_signature": "anonymous anon aws_skip_signature azure_skip_signature google_skip_signature",
        "profile": "aws_profile",
        "allow_http": "aws_allow_http azure_allow_http google_allow_http",
    }.items()
    for alias in aliases.split()
}
_OF_DELTALAKE = re.compile(
    "aws_s3_(allow_unsafe_rename|locking_provider)|delta_dynamo_table_name|mount_allow_unsafe_rename"
)
"""Options of deltalake for locking and renaming: ignored here."""
_DURATIONS = ("timeout", "connect_timeout", "read_timeout", "pool_idle_timeout")
_KNOWN = {
    "": "endpoint endpoint_url anonymous skip_signature profile allow_http max_retries retry_timeout init_backoff "
    "max_backoff max_concurrency proxy_url timeout connect_timeout read_timeout pool_idle_timeout",
    "s3": "aws_region aws_access_key_id aws_secret_access_key aws_session_token aws_endpoint_url",
    "gs": "google_service_account google_service_account_key google_application_credentials",
    "az": "azure_storage_account_name azure_storage_account_key azure_storage_sas_token azure_storage_endpoint",
}
"""Options by store, for suggestions."""
_UNITS = {"": 1, "s": 1, "sec": 1, "seconds": 1, "ms": 1e-3, "m": 60, "min": 60, "minutes": 60, "h": 3600}
_DURATION = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)\s*")
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off", "")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How to retry a request after a transient failure.

    Attributes:
        max_retries: retries of one request.
        timeout: seconds after which no retry starts.
        init_backoff: seconds before the first retry; each further one doubles it. The actual wait is 50 to 100% of it.
        max_backoff: upper bound of the wait in seconds.
    """

    max_retries: int = 10
    timeout: float = 180.0
    init_backoff: float = 0.1
    max_backoff: float = 15.0


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Checked options.

    Attributes:
        values: options for the store's client, by lower-case key.
        endpoint: URL of the store; None for its public endpoint.
        profile: of AWS's configuration files.
        anonymous: whether requests are unsigned.
        retry: how to retry requests.
        max_concurrency: requests at once.
        originals: `values` before conversion to text, for fsspec, whose options are typed.
    """

    values: Mapping[str, str] = field(repr=False, hash=False)  # secrets are among them
    endpoint: str | None = None
    profile: str | None = None
    anonymous: bool = False
    retry: RetryPolicy = RetryPolicy()
    max_concurrency: int = DEFAULT_CONCURRENCY
    originals: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, given: Mapping[str, object] | None) -> StoreOptions:
        """Check a caller's options.

        Raises:
            UsageError: an invalid value, or one option in two spellings.
        """
        if given is not None and not isinstance(given, Mapping):
            raise UsageError(f"storage_options must be a mapping of options or a Storage, not {type(given).__name__}")
        values: dict[str, str] = {}
        originals: dict[str, tuple[str, object]] = {}
        for key, value in (given or {}).items():
            if not isinstance(key, str):
                raise UsageError(f"storage_options: keys must be str, not {key!r}")
            name = _ALIASES.get(key.lower(), key.lower())
            if value is None or _OF_DELTALAKE.fullmatch(name):
                continue
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if values.setdefault(name, text) != text:
                raise UsageError(f"storage_options: {name} is given in two spellings")
            originals[name] = (key, value)
        usual = RetryPolicy()
        retry = RetryPolicy(
            _whole(values, "max_retries", usual.max_retries),
            _seconds(values, "retry_timeout", usual.timeout),
            _seconds(values, "init_backoff", usual.init_backoff),
            _seconds(values, "max_backoff", usual.max_backoff),
        )
        concurrency = _whole(values, "max_concurrency", DEFAULT_CONCURRENCY)
        if not concurrency:
            raise UsageError("storage_options: max_concurrency must be at least 1, not 0")
        anonymous = _flag(values, "skip_signature")
        for name in _DURATIONS:
            if name in values:
                values[name] = f"{round(1000 * _seconds(values, name, 0.0))}ms"
        return cls(
            values,
            values.pop("endpoint", None),
            values.pop("profile", None),
            anonymous,
            retry,
            concurrency,
            {key: value for name, (key, value) in originals.items() if name in values},
        )

    def for_rust(self) -> dict[str, str]:
        """Return the options for another library built on Rust's object_store."""
        found = dict(self.values)
        if self.endpoint is not None:
            found["endpoint"] = self.endpoint
        if self.anonymous:
            found["skip_signature"] = "true"
        return found


def suggestion(name: str, scheme: str) -> str:
    """Return ``; did you mean ...?`` for a misspelled option, or an empty text."""
    own = _KNOWN.get(scheme, "").split()
    known = [*own, *_KNOWN[""].split(), *(one.partition("_")[2] for one in own)]  # the store's prefix is optional
    near = difflib.get_close_matches(name.lower(), known, 1, 0.75)
    return f"; did you mean {near[0]}?" if near else ""


def _whole(values: dict[str, str], name: str, default: int) -> int:
    text = values.pop(name, None)
    if text is None:
        return default
    if not text.isdecimal():
        raise UsageError(f"storage_options: {name} must be a whole number, not {text!r}")
    return int(text)


def _seconds(values: dict[str, str], name: str, default: float) -> float:
    text = values.pop(name, None)
    if text is None:
        return default
    match = _DURATION.fullmatch(text.lower())
    if match is None or match[2] not in _UNITS:
        raise UsageError(f"storage_options: {name} must be a duration such as 30s, not {text!r}")
    return float(match[1]) * _UNITS[match[2]]


def _flag(values: dict[str, str], name: str) -> bool:
    text = values.pop(name, "").lower()
    if text not in (*_TRUE, *_FALSE):
        raise UsageError(f"storage_options: {name} must be true or false, not {text!r}")
    return text in _TRUE
