"""A real S3 server on the loopback interface, and what lies in its buckets."""

import logging
import os
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pipeline.storage import Remote, location

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@dataclass(frozen=True)
class Store:
    """One bucket of the server; `query` is what its URIs end with."""

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
        data = content.encode() if isinstance(content, str) else content
        self._request("PUT", key, data)
        return self.uri(key)

    def get(self, key: str) -> bytes:
        return self._request("GET", key)

    def _request(self, method: str, key: str, data: bytes | None = None) -> bytes:
        url = f"http://{self.address}/{self.bucket}/{key}"
        headers = {"Content-Type": "application/octet-stream"}
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method)) as answer:
            return bytes(answer.read())


@contextmanager
def serving() -> Iterator[str]:
    """A server with nothing in it; gives its address."""
    from moto.moto_server.threaded_moto_server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    os.environ.update(CREDENTIALS)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"{host}:{port}"
    finally:
        server.stop()


def new_bucket(address: str, name: str) -> Store:
    urllib.request.urlopen(urllib.request.Request(f"http://{address}/{name}", method="PUT")).close()
    return Store(address, name)
