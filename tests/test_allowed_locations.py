"""How far metadata reaches: pairs of a table's home and a path that its metadata spells whole."""

from __future__ import annotations

import pytest

from cases import each
from dvcodec import NotCanonical, Unsupported
from dvcodec.io.target import OBJECT_STORES, check_reach, check_step

LOCAL = [None, "/wh/t", "t", "file:///wh/t", "file:/wh/t"]
REMOTE = ["s3://lake/t", "memory://lake/t", "http://lake.example/t", "zip://t::s3://lake/x.zip"]


@each("home", [*LOCAL, *REMOTE])
def test_buckets_of_any_store_are_within_reach(home: str | None) -> None:
    for store in sorted(OBJECT_STORES):
        check_reach(f"{store}://other/x", home)
        check_reach(f"{store.upper()}://other/x", home)


@each(
    ("home", "path", "reached"),
    [
        ("http://lake.example/t", "http://lake.example/u/x", True),
        ("http://lake.example/t", "HTTP://lake.example/u/x", True),
        ("http://lake.example/t", "http://lake.example", True),
        ("http://lake.example/t", "https://lake.example/u", False),
        ("http://lake.example/t", "http://lake.example:81/u", False),
        ("http://lake.example/t", "http://lake.example.evil/u", False),
        ("http://lake.example/t", "http://lake.example@evil/u", False),
        ("http://lake.example/t", "http://lake.example\\@evil/u", False),
        ("http://lake.example/t", "http://lake.example?@evil/u", False),
        ("http://lake.example/t", "http://lake.example#@evil/u", False),
        ("http://lake.example/t", "http://169.254.169.254/u", False),
        ("hdfs://one/t", "hdfs://one/u", True),
        ("hdfs://one/t", "hdfs://two/u", False),
        ("zip://t::s3://lake/x.zip", "zip://u::s3://lake/x.zip", False),
        ("/t", "local:///etc/passwd", False),
        ("/t", "HTTPS://evil/a", False),
        ("/t", "ssh://root@evil/a", False),
        ("/t", "zip://a::file:///etc/passwd", False),
        ("/t", "reference://::s3://b/k", False),
        ("//lake/t", "//lake/u", True),
        ("//lake/t", "//evil/u", False),
        ("/t", "//evil/u", False),
        ("/t", "s3://b/x::http://evil/y", False),
        ("/t", "s3://b/x::y", False),
        ("/t", "::http://evil", True),  # a local name: no scheme stands before it
    ],
)
def test_hosts_and_chains(home: str, path: str, reached: bool) -> None:
    if reached:
        check_reach(path, home)
    else:
        with pytest.raises(Unsupported) as caught:
            check_reach(path, home)
        assert caught.value.source == home
        assert repr(path) in str(caught.value)


def test_of_a_chain_every_protocol_has_to_be_allowed() -> None:
    path = "zip://a::simplecache::http://evil/x.zip"
    for allow in ({"http"}, {"zip", "http"}, {"zip", "simplecache"}, {"*"}):
        with pytest.raises(Unsupported):
            check_reach(path, "/t", frozenset(allow))
    check_reach(path, "/t", frozenset({"zip", "simplecache", "http"}))
    check_reach("zip://a::s3://lake/x.zip", "/t", frozenset({"zip"}))
    with pytest.raises(Unsupported):
        check_reach("zip://a::file:///x.zip", "s3://lake/t", frozenset({"zip"}))


@each(
    ("name", "home", "said"),
    [
        ("a/b.parquet", "/t", None),
        ("a::b", "/t", None),
        ("a::b", "file:///t", None),
        ("a::http://host/x", "s3://lake/t", "no '::' below a URL"),
        ("//host/x", "/t", "no network path"),
        ("a\0b", "/t", "no NUL character"),
        ("a\ud800", "/t", "no lone surrogate"),
    ],
)
def test_steps_below_a_home(name: str, home: str, said: str | None) -> None:
    if said is None:
        check_step(name, home)
    else:
        with pytest.raises(NotCanonical, match=said):
            check_step(name, home)
