"""A real S3 server on the loopback interface, and access to its buckets.

The server is a process of its own (this file run as a script): it has its own warnings and interpreter lock.
"""

import itertools
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from bpe_pipeline.storage import Remote, location

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true"}
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Store:
    """One bucket of the server; its URIs end with `query`."""

    address: str
    bucket: str

    @property
    def query(self) -> str:
        return f"scheme=http&endpoint_override={self.address}&region=us-east-1"

    def uri(self, key: str) -> str:
        return f"s3://{self.bucket}/{key}?{self.query}"

    def remote(self, key: str) -> Remote:
        where = location(self.uri(key))
        assert isinstance(where, Remote)
        return where

    def put(self, key: str, content: bytes | str) -> str:
        with _files(self.address).open_output_stream(f"{self.bucket}/{key}") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
        return self.uri(key)

    def get(self, key: str) -> bytes:
        with _files(self.address).open_input_file(f"{self.bucket}/{key}") as file:
            return bytes(file.read())

    def listing(self, prefix: str = "") -> list[str]:
        names = (child.name for child in self.remote("").children(recursive=True) if child.is_file)
        return [name for name in names if name.startswith(prefix)]


@cache
def _files(address: str) -> Any:
    from pyarrow import fs

    keys = {"access_key": CREDENTIALS["AWS_ACCESS_KEY_ID"], "secret_key": CREDENTIALS["AWS_SECRET_ACCESS_KEY"]}
    return fs.S3FileSystem(**keys, endpoint_override=address, scheme="http", allow_bucket_creation=True)


def new_bucket(address: str, name: str | None = None) -> Store:
    """Make a bucket on the server."""
    store = Store(address, name or f"bucket-{next(_numbers)}")
    _files(address).create_dir(store.bucket)
    return store


@contextmanager
def serving() -> Iterator[str]:
    """Start an empty server and yield its address."""
    with subprocess.Popen(
        [sys.executable, "-P", "-W", "ignore", __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.stdin.close()  # which ends it


def _serve() -> None:
    from moto.moto_server.threaded_moto_server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    sys.stdout.write(f"{host}:{port}\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    _serve()
