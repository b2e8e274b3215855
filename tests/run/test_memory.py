"""The default size of chunks."""

from pipeline.run import memory


def test_default_chunk_size_depends_on_cores_and_memory() -> None:
    gib = 1 << 30
    assert memory.default_chunk_bytes(100, 2, gib) == 1 << 20
    assert memory.default_chunk_bytes(100 << 20, 2, 64 * gib) == 50 << 20
    assert memory.default_chunk_bytes(300 << 20, 2, 64 * gib) == 75 << 20  # two for each worker, not three
    assert memory.default_chunk_bytes(1000 * gib, 2, 64 * gib) == 128 << 20
    assert memory.default_chunk_bytes(1000 * gib, 8, gib) < 64 << 20
    assert memory.default_chunk_bytes(1000 * gib, 2, 64 * gib, slow=True) == 8 << 20
