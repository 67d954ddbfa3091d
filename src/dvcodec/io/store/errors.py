"""Errors of stores: the reason, and the store's own message on one line."""

from __future__ import annotations

import errno
import html
import os
import re
from typing import Any

from dvcodec.core.text import TextEnum


class Reason(TextEnum):
    """Why a request failed."""

    NO_OBJECT = "no such object"
    NO_BUCKET = "no such bucket"
    DENIED = "denied"
    BAD_CREDENTIALS = "credentials refused"
    EXPIRED = "expired credentials"
    THROTTLED = "throttled"
    UNREACHABLE = "endpoint not reachable"
    TIMEOUT = "timed out"
    UNAVAILABLE = "store unavailable"
    CHANGED = "changed since it was listed or opened"
    EXISTS = "already exists"
    NOT_PARTIAL = "no byte ranges"
    RANGE = "range beyond the end"
    REGION = "another region"
    PLAIN_HTTP = "plain http is not allowed"
    CONFLICT = "written concurrently by another writer"
    OTHER = "failed"


_ERRNO = {
    Reason.NO_OBJECT: errno.ENOENT,
    Reason.NO_BUCKET: errno.ENOENT,
    Reason.DENIED: errno.EACCES,
    Reason.BAD_CREDENTIALS: errno.EACCES,
    Reason.EXPIRED: errno.EACCES,
    Reason.THROTTLED: errno.EAGAIN,
    Reason.UNREACHABLE: errno.ECONNREFUSED,
    Reason.TIMEOUT: errno.ETIMEDOUT,
    Reason.EXISTS: errno.EEXIST,
    Reason.CONFLICT: errno.EAGAIN,
}


class StoreError(OSError):
    """A request to a store failed.

    Attributes:
        url: URL of the object or folder.
        action: the operation: ``read``, ``list``, ``write``, ``delete``.
        reason: why it failed, as far as the response shows.
        words: message of the store or its client.
    """

    def __init__(self, url: str, action: str, reason: Reason, words: str) -> None:
        code = _ERRNO.get(reason, errno.EIO)
        super().__init__(code, os.strerror(code), url)
        self.url, self.action, self.reason, self.words = url, action, reason, words

    def __str__(self) -> str:
        words = f": {self.words}" if self.words else ""
        text = f"{self.url}: cannot {self.action}: {self.reason.value}{words}"
        return text if text.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.url, self.action, self.reason, self.words)


class ObjectNotFound(StoreError, FileNotFoundError):
    """The object does not exist."""


class BucketNotFound(StoreError, FileNotFoundError):
    """The bucket or container does not exist."""


class AccessDenied(StoreError, PermissionError):
    """The credentials do not allow this action on this object, are wrong, or have expired: see `reason`."""


class ObjectExists(StoreError, FileExistsError):
    """An object of that name exists and must not be replaced."""


class ObjectChanged(StoreError):
    """The object was replaced while it was read, or after it was listed."""


class StoreUnreachable(StoreError, ConnectionError):
    """The endpoint does not respond."""


class StoreTimeout(StoreError, TimeoutError):
    """The store did not respond in time."""


_CLASSES: dict[Reason, type[StoreError]] = {
    Reason.NO_OBJECT: ObjectNotFound,
    Reason.NO_BUCKET: BucketNotFound,
    Reason.DENIED: AccessDenied,
    Reason.BAD_CREDENTIALS: AccessDenied,
    Reason.EXPIRED: AccessDenied,
    Reason.EXISTS: ObjectExists,
    Reason.CHANGED: ObjectChanged,
    Reason.UNREACHABLE: StoreUnreachable,
    Reason.TIMEOUT: StoreTimeout,
}

# Codes of S3 and compatible stores, and of Azure; GCS uses S3's. versitygw's XAdminUserNotFound has status 404.
_CODES = {
    code: reason
    for reason, codes in {
        Reason.NO_OBJECT: "NoSuchKey NotFound NoSuchVersion BlobNotFound PathNotFound ResourceNotFound",
        Reason.NO_BUCKET: "NoSuchBucket ContainerNotFound FilesystemNotFound",
        Reason.DENIED: "AccessDenied AllAccessDisabled AuthorizationFailure AuthorizationPermissionMismatch",
        Reason.BAD_CREDENTIALS: "InvalidAccessKeyId SignatureDoesNotMatch XAdminUserNotFound InvalidToken "
        "AuthenticationFailed",
        Reason.EXPIRED: "ExpiredToken ExpiredTokenException TokenRefreshRequired RequestExpired",
        Reason.THROTTLED: "SlowDown Throttling ThrottlingException RequestLimitExceeded TooManyRequests ServerBusy",
        Reason.TIMEOUT: "RequestTimeout",
        Reason.CHANGED: "PreconditionFailed ConditionNotMet",
        Reason.RANGE: "InvalidRange",
        Reason.REGION: "AuthorizationHeaderMalformed PermanentRedirect IllegalLocationConstraintException",
        Reason.CONFLICT: "ConditionalRequestConflict OperationAborted",
    }.items()
    for code in codes.split()
}
_STATUSES = {
    401: Reason.BAD_CREDENTIALS,
    403: Reason.DENIED,
    404: Reason.NO_OBJECT,
    408: Reason.TIMEOUT,
    412: Reason.CHANGED,
    416: Reason.RANGE,
    301: Reason.REGION,
    429: Reason.THROTTLED,
    500: Reason.UNAVAILABLE,
    501: Reason.OTHER,  # a web server without listings: not worth a retry
    502: Reason.UNAVAILABLE,
    503: Reason.THROTTLED,
    504: Reason.TIMEOUT,
}
_WORDS = (
    (re.compile(r"NotPartial|non-partial response|Range request not supported"), Reason.NOT_PARTIAL),
    (re.compile(r"Received redirect without LOCATION"), Reason.REGION),
    (re.compile(r"source: BadScheme"), Reason.PLAIN_HTTP),
    (re.compile(r"kind: Timeout|operation timed out|deadline has elapsed"), Reason.TIMEOUT),
    (re.compile(r"kind: Connect\b|dns error|tcp connect|Name or service not known"), Reason.UNREACHABLE),
    # A response from something between client and store.
    (re.compile(r"Header missing from response|Got invalid \w+ response"), Reason.UNAVAILABLE),
    (re.compile(r"kind: (?:Request|Interrupted|Decode|Unknown)|error decoding response body"), Reason.UNAVAILABLE),
)
_STATUS = re.compile(r"status code: (\d{3})(?: ([^:\n]*))?|with status (\d{3})()")
_XML = re.compile(r"<(Code|Message)>([^<]*)</")
_JSON = re.compile(r'"(code|message)"\s*:\s*"?([^",}]+)')
_PERFORMING = re.compile(
    r"^(?:Generic \w+ error: )?(?:Error performing .*? in [0-9.]+[nµm]?s(?:, after [^-]*)? - )?", re.DOTALL
)
_CAUSE = re.compile(r'(?:message|error): "([^"]+)"')
_SECRETS = re.compile(r"(?<=://)[^\s/@]*(?=@)|(?<=\?)[^\s?]*=[^\s]*")
_TLS = (
    (re.compile(r"InvalidMessage\(\s*InvalidContentType"), "the response is not TLS, the server may speak plain http"),
    (
        re.compile(r"InvalidCertificate\("),
        "its certificate is not trusted; for your own authority set the storage option root_certificate",
    ),
)
_SHOWN = 300
_ADVICE = {
    Reason.REGION: "set the storage option aws_region, or the endpoint",
    Reason.PLAIN_HTTP: "set the storage option allow_http to true, or use https",
}


def without_secrets(text: str) -> str:
    """Mask passwords and queries of the URLs in a text."""
    return _SECRETS.sub("..", text)


def store_error(url: str, action: str, text: str, reason: Reason | None = None) -> StoreError:
    """Return the error for a failed request.

    Args:
        url: URL of the object or folder.
        action: the operation.
        text: message of the client, including the response body.
        reason: from the type of the client's error, if known.
    """
    head, _, dump = text.partition("\n\nDebug source")
    status = _STATUS.search(head)
    number = int(status[1] or status[3]) if status else None
    xml = {name.lower(): " ".join(html.unescape(value).split()) for name, value in _XML.findall(head)}
    found = {name.lower(): value.strip() for name, value in _JSON.findall(head)} | xml
    code = found.get("code", "")
    known = _CODES.get(code)
    if known is None and number == 404 and xml.get("code"):
        reason = known = Reason.OTHER  # something is missing, but not necessarily the object
    if known is None and number is not None:
        known = _STATUSES.get(number, Reason.UNAVAILABLE if number >= 500 else None)
    if known is None:
        known = next((why for pattern, why in _WORDS if pattern.search(text)), None)
    # The type of the client's error counts only if the response has no code.
    chosen = known if reason is None or code in _CODES else reason
    if reason is Reason.EXISTS and known is not Reason.CONFLICT:
        chosen = reason
    chosen = chosen or Reason.OTHER
    if status:
        parts = [f"{number} {(status[2] or '').strip()}".strip(), code if not code.isdigit() else ""]
        words = " ".join(part for part in parts if part)
        words += f" ({found['message'].splitlines()[0]})" if found.get("message") else ""
    else:
        causes = _CAUSE.findall(dump)[-1:] + [hint for pattern, hint in _TLS if pattern.search(dump)]
        words = ": ".join([_PERFORMING.sub("", head), *causes])
        words = without_secrets(" ".join(words.split()))
    advice = f"; {_ADVICE[chosen]}" if chosen in _ADVICE else ""
    return _CLASSES.get(chosen, StoreError)(url, action, chosen, words[:_SHOWN] + advice)


def error_text(err: BaseException) -> str:
    """Return the message of a client's error on one line, without its debug output."""
    return " ".join(str(err).partition("\n\nDebug source")[0].split())[:_SHOWN] or type(err).__name__
