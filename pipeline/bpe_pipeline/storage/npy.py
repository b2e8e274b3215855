"""The header of NumPy's own files, without NumPy."""

HEADER_BYTES = 128  # of every file that this package writes


def npy_header(item_bytes: int, count: int, row_values: int | None = None) -> bytes:
    """Return the header of a .npy file of unsigned numbers: version 1.0, one dimension or rows, always of one size."""
    shape = f"({count},)" if row_values is None else f"({count // row_values}, {row_values})"
    text = f"{{'descr': '<u{item_bytes}', 'fortran_order': False, 'shape': {shape}, }}"
    rest = HEADER_BYTES - 10
    return b"\x93NUMPY\x01\x00" + rest.to_bytes(2, "little") + f"{text:<{rest - 1}}\n".encode("latin-1")
