"""How much of what was decompressed a decompressor keeps: the dictionary of xz, the window of zstd, told by headers.

The memory is asked for at once and used as the text grows, so a small file takes little whatever its header says.
"""

import lzma
from typing import Any

MOST_ZSTD_BYTES = 128 << 20  # of a window that Arrow's decompressor takes
_XZ_BESIDE_BYTES = 1 << 20
_XZ_HEAD_BYTES = 1 << 12  # more than the headers before the first block's content
_ZSTD_MAGIC, _SKIPPABLE = b"\x28\xb5\x2f\xfd", b"\x2a\x4d\x18"
_DICTIONARY_ID_BYTES, _CONTENT_SIZE_BYTES = (0, 1, 2, 4), (0, 2, 4, 8)
_RUN = 1  # a block that is one byte, repeated


def xz_memory(head: bytes) -> int:
    """What decoding the xz stream that begins so takes: its dictionary, and what is beside it.

    Every size that a dictionary has is tried, the smallest first: 2^n or 2^n + 2^(n-1) bytes.
    """
    for memory in ((2 + half << power) + _XZ_BESIDE_BYTES for power in range(11, 31) for half in (0, 1)):
        try:
            lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=memory).decompress(head[:_XZ_HEAD_BYTES], 1)
        except lzma.LZMAError as error:
            if "limit" in str(error):
                continue
        return memory
    return (1 << 32) + _XZ_BESIDE_BYTES


class ZstdWindows:
    """Sees the bytes of zstd frames go by and notes the largest window among them: `window_bytes`."""

    def __init__(self) -> None:
        self.window_bytes = 0
        self._skip = 0  # bytes of content before the next header
        self._header = bytearray()
        self._in_frame = self._lost = False
        self._checksum_bytes = 0

    def see(self, data: Any) -> None:
        """The next bytes of the file. What is no frame ends the looking: decoding it fails anyway."""
        at = 0
        while at < len(data) and not self._lost:
            if self._skip:
                step = min(self._skip, len(data) - at)
                self._skip -= step
                at += step
                continue
            self._header.append(data[at])
            at += 1
            if self._block() if self._in_frame else self._frame():
                self._header.clear()

    def _block(self) -> bool:
        """Look at the header of a block; whether it is whole."""
        if len(self._header) < 3:
            return False
        number = int.from_bytes(self._header, "little")
        last, kind, size = number & 1, number >> 1 & 3, number >> 3
        self._skip = (1 if kind == _RUN else size) + (self._checksum_bytes if last else 0)
        self._in_frame = not last
        return True

    def _frame(self) -> bool:
        """Look at the header of a frame; whether it is whole."""
        header = self._header
        if len(header) < 5:
            return False
        if header[0] & 0xF0 == 0x50 and header[1:4] == _SKIPPABLE:
            if len(header) < 8:
                return False
            self._skip = int.from_bytes(header[4:], "little")
            return True
        if header[:4] != _ZSTD_MAGIC:
            self._lost = True
            return True
        flags = header[4]
        single = bool(flags & 0x20)  # its window is its content
        size_bytes = _CONTENT_SIZE_BYTES[flags >> 6] or int(single)
        if len(header) < 5 + (not single) + _DICTIONARY_ID_BYTES[flags & 3] + size_bytes:
            return False
        if single:
            window = int.from_bytes(header[len(header) - size_bytes :], "little") + (256 if size_bytes == 2 else 0)
        else:
            base = 1 << 10 + (header[5] >> 3)
            window = base + base // 8 * (header[5] & 7)
        self.window_bytes = max(self.window_bytes, window)
        self._checksum_bytes = 4 if flags & 4 else 0
        self._in_frame = True
        return True
