"""The default size of chunks."""

from pipeline.run.plan import default_chunk_bytes


def test_default_chunk_size_depends_on_cores_and_memory() -> None:
    gib = 1 << 30
    assert default_chunk_bytes(100, 2, gib // 2) == 1 << 20
    assert default_chunk_bytes(100 << 20, 2, 32 * gib) == 50 << 20
    assert default_chunk_bytes(300 << 20, 2, 32 * gib) == 75 << 20  # two for each worker, not three
    assert default_chunk_bytes(1000 * gib, 2, 32 * gib) == 128 << 20
    assert default_chunk_bytes(1000 * gib, 8, gib // 8) < 64 << 20
    assert default_chunk_bytes(1000 * gib, 2, 32 * gib, slow=True) == 8 << 20
