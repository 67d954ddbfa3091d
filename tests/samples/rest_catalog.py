"""A REST catalog of Iceberg tables in a folder, on the loopback: what pyiceberg's client asks for, and no more.

Metadata files are JSON that is changed as the requests say, so that tables of format version 3 are stored too, which
pyiceberg does not write. Requirements are checked, so that a stale commit is refused. The catalog of interop/java is
Iceberg's own.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

__all__ = ["rest_catalog"]

Json = dict[str, Any]


@contextmanager
def rest_catalog(folder: Path) -> Iterator[str]:
    """Serve a catalog whose tables are below a folder; yield its URI."""

    class Handler(_Handler):
        tables = _Tables(folder)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class _Refused(Exception):
    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Tables:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._current: dict[str, Path] = {}
        self._lock = threading.Lock()

    def create(self, namespace: str, request: Json) -> Json:
        from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
        from pyiceberg.schema import Schema
        from pyiceberg.table.metadata import new_table_metadata
        from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

        location = self._folder / namespace / request["name"]
        made = new_table_metadata(
            Schema.model_validate(request["schema"]),
            UNPARTITIONED_PARTITION_SPEC,
            UNSORTED_SORT_ORDER,
            str(location),
            request.get("properties") or {},
        )
        return self._store(f"{namespace}.{request['name']}", json.loads(made.model_dump_json()), 0)

    def load(self, name: str) -> Json:
        if name not in self._current:
            raise _Refused(HTTPStatus.NOT_FOUND, f"no table {name}")
        path = self._current[name]
        return {"metadata-location": str(path), "metadata": json.loads(path.read_bytes())}

    def commit(self, name: str, request: Json) -> Json:
        with self._lock:
            loaded = self.load(name)
            metadata = loaded["metadata"]
            for requirement in request["requirements"]:
                _check(requirement, metadata)
            for update in request["updates"]:
                _apply(update, metadata)
            metadata["metadata-log"].append(
                {"metadata-file": loaded["metadata-location"], "timestamp-ms": metadata["last-updated-ms"]}
            )
            return self._store(name, metadata, len(metadata["metadata-log"]))

    def _store(self, name: str, metadata: Json, number: int) -> Json:
        path = Path(metadata["location"]) / "metadata" / f"{number:05}-{number:032x}.metadata.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(metadata))
        self._current[name] = path
        return self.load(name)


def _check(requirement: Json, metadata: Json) -> None:
    kind = requirement["type"]
    if kind == "assert-table-uuid":
        right = requirement["uuid"] == metadata["table-uuid"]
    elif kind == "assert-ref-snapshot-id":
        ref = metadata["refs"].get(requirement["ref"], {})
        right = ref.get("snapshot-id") == requirement.get("snapshot-id")
    else:
        raise _Refused(HTTPStatus.BAD_REQUEST, f"requirement {kind}")
    if not right:
        raise _Refused(HTTPStatus.CONFLICT, f"requirement {kind} is not met")


def _apply(update: Json, metadata: Json) -> None:
    action = update.pop("action")
    if action == "upgrade-format-version":
        metadata["format-version"] = update["format-version"]
        metadata.setdefault("next-row-id", 0)
    elif action == "add-snapshot":
        snapshot = update["snapshot"]
        metadata.setdefault("snapshots", []).append(snapshot)
        metadata["last-sequence-number"] = snapshot["sequence-number"]
        metadata["last-updated-ms"] = snapshot["timestamp-ms"]
        if "first-row-id" in snapshot:
            metadata["next-row-id"] = snapshot["first-row-id"] + snapshot["added-rows"]
    elif action == "set-snapshot-ref":
        metadata["refs"][update.pop("ref-name")] = update
        metadata["current-snapshot-id"] = update["snapshot-id"]
    elif action != "set-properties" or update["updates"]:
        raise _Refused(HTTPStatus.BAD_REQUEST, f"update {action}")


class _Handler(BaseHTTPRequestHandler):
    tables: _Tables

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, request: Json | None = None) -> None:
        try:
            status, body = HTTPStatus.OK, self._act(self.path.partition("?")[0].split("/")[2:], request)
        except _Refused as refused:
            error = {"message": str(refused), "type": "Refused", "code": refused.status}
            status, body = refused.status, {"error": error}
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _act(self, path: list[str], request: Json | None) -> Json:
        match path:
            case ["config"]:
                return {"defaults": {}, "overrides": {}}
            case ["namespaces"] if request is not None:
                return {"namespace": request["namespace"], "properties": {}}
            case ["namespaces", namespace, "tables"] if request is not None:
                return self.tables.create(namespace, request)
            case ["namespaces", namespace, "tables", name]:
                name = f"{namespace}.{name}"
                return self.tables.load(name) if request is None else self.tables.commit(name, request)
        raise _Refused(HTTPStatus.NOT_FOUND, "/".join(path))

    def log_message(self, *_: object) -> None:
        """Keep quiet."""
