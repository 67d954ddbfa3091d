"""What metadata may name: claims of SECURITY.md on paths and URLs, each proved for every place that names one."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import fsspec
import pytest

from cases import each
from cli_runner import run
from dvcodec import DecodeError, NotCanonical, RowSet, Unsupported, UsageError, delta, paimon
from dvcodec.lance import wire
from dvcodec.tables import open_table
from dvcodec.tables.auditing import audit
from samples.delta_table import DeltaBuilder, rows_from
from samples.locations import CRAFTS, GUARDED, NAMES, lance_manifest, paimon_index_file, traps, upload, use

WEB = "http://169.254.169.254/latest/meta-data"
CHAIN = f"simplecache::{WEB}"
NEVER_OPENED = ("iceberg_statistics", "lance_base_path")
"""What is named and not opened: statistics are files to keep, data files of Lance are for its own library."""
EVERYWHERE = pytest.mark.parametrize("place", list(CRAFTS))


def made(place: str, folder: Path, location: str) -> str:
    CRAFTS[place](folder, location)
    return str(folder)


@pytest.fixture
def remote() -> str:
    return f"memory://lake/{uuid.uuid4().hex}"


@EVERYWHERE
@each("location", [WEB, CHAIN])
def test_metadata_opens_no_web_address_host_or_chain(tmp_path: Path, place: str, location: str) -> None:
    target = made(place, tmp_path / "t", location)
    with traps(*GUARDED) as asked:
        with pytest.raises((Unsupported, NotCanonical)) as caught:
            use(open_table(target))
        assert not asked
    assert "path" in str(caught.value) or "PATH" in str(caught.value)


@EVERYWHERE
def test_metadata_opens_another_protocol_only_where_it_is_allowed(tmp_path: Path, place: str) -> None:
    target = made(place, tmp_path / "t", f"{WEB}/a.parquet")
    with traps("http") as asked:
        with pytest.raises(Unsupported, match="must be allowed by protocol"):
            use(open_table(target, allow=["ftp"]))
        assert not asked
        allowed = open_table(target, allow=["HTTP"])
        if place in NEVER_OPENED:
            allowed.referenced()
            return
        with pytest.raises(OSError, match="no such object"):
            use(allowed)
        assert set(asked) == {"http"}


@EVERYWHERE
@pytest.mark.parametrize("location", ["/etc/passwd", "file:///etc/passwd", "file:/etc/passwd", "FILE:///etc/passwd"])
def test_a_remote_table_names_no_local_file(tmp_path: Path, place: str, location: str, remote: str) -> None:
    upload(Path(made(place, tmp_path / "t", location)), remote)
    with pytest.raises(Unsupported, match="path in metadata"):
        use(open_table(remote))


@EVERYWHERE
def test_a_remote_table_of_one_host_names_no_other_host(tmp_path: Path, place: str, remote: str) -> None:
    upload(Path(made(place, tmp_path / "t", "memory://other/a.parquet")), remote)
    with pytest.raises(Unsupported, match="path in metadata"):
        use(open_table(remote))
    allowed = open_table(remote, allow=["memory"])
    if place in NEVER_OPENED:
        allowed.referenced()
    else:
        with pytest.raises(OSError, match="no such object"):
            use(allowed)


@pytest.mark.parametrize("location", ["s3a://b/x", "abfss://c@a.dfs.core.windows.net/x"])
def test_buckets_of_object_stores_are_opened(tmp_path: Path, location: str, remote: str) -> None:
    target = made("iceberg_data_file", tmp_path / "t", location)
    upload(tmp_path / "t", remote)
    for root in (target, f"file:{target}", remote):
        (file,) = open_table(root).snapshot().data_files
        assert file.location == location


def test_the_table_itself_may_be_anywhere(tmp_path: Path) -> None:
    """Who names the table is trusted, and whatever lies below it is opened there."""
    target = made("delta_data_file", tmp_path / "t", "part=1/b.parquet")
    with traps("http") as asked:
        with pytest.raises(UsageError):
            open_table("http://lake.example/t")
        assert asked
    (file,) = open_table(target).snapshot().data_files
    assert file.location == f"{target}/part=1/b.parquet"


@each(
    "location",
    ["../../etc/passwd", "a/../../x", "%2e%2e/x", "..", "a/.."],
)
@each("place", ["delta_data_file", "delta_vector", "lance_base_path", "paimon_index_file"])
def test_no_path_climbs_out_of_the_table(tmp_path: Path, place: str, location: str) -> None:
    root = tmp_path / "t"
    whole = location if place == "delta_data_file" else f"{root}/{location}"
    if location.startswith("%"):
        pytest.importorskip("fastavro")
        whole = whole.replace("%2e", ".") if place != "delta_data_file" else "../x"
    with pytest.raises(NotCanonical):
        use(open_table(made(place, root, whole)))


BARE = re.compile(
    "expected (a bare file name|a bare name|a relative path|a file in _delta_log|a folder in the table's)"
)


@each("name", ["../../secret", "..", "a/../../../secret"])
@each("place", NAMES)
def test_no_file_name_climbs_out_of_its_folder(tmp_path: Path, place: str, name: str) -> None:
    NAMES[place](tmp_path / "t", name)
    with pytest.raises((NotCanonical, Unsupported), match=BARE):
        use(open_table(tmp_path / "t"))


@each("place", [*CRAFTS, *NAMES, "lance_transaction"])
@each("name", ["a\0b", "data/a\0.parquet"], ids=["name", "path"])
def test_names_with_a_nul_in_metadata_are_damage(tmp_path: Path, place: str, name: str) -> None:
    """Of a caller they are a wrong argument (`test_a_name_that_no_file_can_have`); in metadata nobody else wrote."""
    crafts = {**CRAFTS, **NAMES, "lance_transaction": _lance_transaction}
    crafts[place](tmp_path / "t", name.replace("\0", "\\u0000") if place == "delta_sidecar" else name)
    with pytest.raises(DecodeError, match=r"path|_PATH|absolute URL|_NAME|name") as caught:
        use(open_table(tmp_path / "t"))
    assert str(caught.value).isprintable()


def _lance_transaction(folder: Path, name: str) -> None:
    lance_manifest(folder, wire.message(12, name.encode()))


def test_a_transaction_file_climbs_nowhere(tmp_path: Path) -> None:
    lance_manifest(tmp_path / "t", wire.message(12, b"../../secret"))
    table = open_table(tmp_path / "t")
    for ask in (table.snapshots, table.referenced):
        with pytest.raises(NotCanonical, match=r"no step \.\."):
            ask()


def test_the_name_of_a_branch_climbs_nowhere(tmp_path: Path) -> None:
    lance_manifest(tmp_path / "t")
    (tmp_path / "t/_refs/branches").mkdir(parents=True)
    (tmp_path / "t/_refs/branches/..%2F..%2Fx.json").write_text("{}")
    with pytest.raises(NotCanonical, match=r"no step \.\."):
        open_table(tmp_path / "t").referenced()


@pytest.mark.parametrize("name", ["a::http://evil.example/x", "x::file:///etc/passwd"])
def test_a_relative_path_starts_no_chain(tmp_path: Path, name: str, remote: str) -> None:
    """Below a URL, ``a::http://host`` would be a chain of file systems; below a local folder it is a name."""
    target = made("delta_data_file", tmp_path / "t", name)
    upload(tmp_path / "t", remote)
    with pytest.raises(DecodeError, match="::"):
        use(open_table(remote))
    if "file:" not in name:
        (file,) = open_table(target).snapshot().data_files
        assert file.location == f"{target}/{name}"


@pytest.mark.parametrize("location", [WEB, "file://evil.example/x", "http://evil.example/::x", "/etc"])
def test_the_location_that_a_metadata_file_records_is_held_to_the_same(tmp_path: Path, location: str) -> None:
    """A metadata file that lies in no folder ``metadata`` says where its table is."""
    CRAFTS["iceberg_manifest_list"](tmp_path / "t", "/nowhere")
    text = next((tmp_path / "t/metadata").glob("*.metadata.json")).read_text()
    alone = f"memory://alone/{uuid.uuid4().hex}.metadata.json"
    files, path = fsspec.core.url_to_fs(alone)
    files.pipe_file(path, text.replace(f'"location": "{tmp_path}/t"', f'"location": "{location}"').encode())
    with traps("http") as asked:
        with pytest.raises((Unsupported, NotCanonical)):
            open_table(alone)
        assert not asked


@pytest.mark.parametrize("url", [WEB, f"simplecache::{WEB}", "ssh://evil.example/x"])
def test_a_descriptor_by_itself_opens_no_web_address(url: str) -> None:
    descriptor = delta.Descriptor("p", url, 34, 1, 1)
    with traps(*GUARDED) as asked:
        for root in (None, "/wh/t", "s3://lake/t"):
            with pytest.raises(Unsupported, match="path in metadata"):
                delta.load(descriptor, root)
        assert not asked
        with pytest.raises(OSError, match="no such object"):
            delta.load(descriptor, allow=["http", "ssh", "simplecache"])
        assert asked


def test_a_descriptor_of_a_remote_table_names_no_local_file(tmp_path: Path) -> None:
    (location,) = delta.write_deletion_vectors(tmp_path / "x.bin", {"a": RowSet([1])})
    descriptor = delta.Descriptor.from_location(location)
    assert delta.load(descriptor, "/wh/t") == RowSet([1])
    with pytest.raises(Unsupported, match="path in metadata"):
        delta.load(descriptor, "s3://lake/t")
    assert delta.load(descriptor, "s3://lake/t", allow=["file"]) == RowSet([1])


@pytest.mark.parametrize("kind", ["r", "u"])
def test_a_relative_descriptor_stays_in_its_table(kind: str) -> None:
    uuid_text = "^-aqEH.-t@S}K{vb[*k^"
    for prefix in ("../x", "a/../../x", "/etc", "%2e%2e/x", "..\\x", "a::http://evil.example/"):
        text = prefix + (uuid_text if kind == "u" else "/x.bin")
        with pytest.raises(NotCanonical):
            delta.load(delta.Descriptor(kind, text, 34, 1, 1), "memory://lake/t")


def test_the_command_line_opens_no_web_address_of_a_manifest(tmp_path: Path) -> None:
    paimon_index_file(tmp_path / "t", f"{WEB}/a")
    (index,) = (tmp_path / "t/manifest").glob("index-manifest*")
    assert paimon.read_index_manifest(index)[0].external_path == f"{WEB}/a"
    with traps("http") as asked:
        result = run("verify", str(index))
        assert not asked
    assert result.code == 1
    assert "path in metadata" in result.out


def test_the_command_line_allows_a_protocol_by_name(tmp_path: Path) -> None:
    target = made("delta_vector", tmp_path / "t", f"{WEB}/a")
    with traps("http") as asked:
        refused = run("audit", target)
        assert not asked
        reported = run("audit", target, "--allow-protocol", "http")
        assert asked
    assert (refused.code, reported.code) == (2, 1)
    assert "must be allowed by protocol" in refused.err
    wrong = run("audit", target, "--allow-protocol", "http://")
    assert (wrong.code, "expected protocols such as" in wrong.err) == (2, True)


def test_links_to_folders_are_not_followed_when_a_table_is_listed(tmp_path: Path) -> None:
    target = Path(made("delta_data_file", tmp_path / "t", "a.parquet"))
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "private.parquet").write_bytes(b"x")
    (target / "link").symlink_to(secret)
    assert not [finding for finding in audit(open_table(target)).findings if "private" in finding.message]


def test_nothing_that_is_read_decides_where_something_is_written(tmp_path: Path) -> None:
    """Names in a table that look like ways out of a folder end up in what is written, never in where it is."""
    table = DeltaBuilder(tmp_path / "t")
    table.create()
    added = table.write_file("a.parquet", rows_from(0, 20))
    table.commit({"add": added})
    table.delete({"a.parquet": RowSet([1])}, "ab")
    outside = DeltaBuilder(tmp_path / "u")
    outside.create()
    elsewhere = added | {
        "path": f"{tmp_path}/t/../t/a.parquet",
        "deletionVector": table.live["a.parquet"]["deletionVector"],
    }
    (vector,) = (tmp_path / "t/ab").iterdir()
    elsewhere["deletionVector"] |= {"storageType": "p", "pathOrInlineDv": f"file://{vector}"}
    outside.commit({"add": elsewhere})
    before = sorted(path for path in tmp_path.rglob("*"))
    out = tmp_path / "out"
    for to in ("iceberg", "paimon32", "paimon64"):
        assert run("convert-table", tmp_path / "u", "--to", to, "--copy", "-o", out / to).code == 0
    written = [path for path in sorted(tmp_path.rglob("*")) if path not in before]
    assert written
    assert all(path == out or out in path.parents for path in written)
