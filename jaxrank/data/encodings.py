"""Text from the bytes of a file, whatever wrote it."""

import numpy as np


def decode(data: bytes, name: str, encoding: str | None = None) -> str:
    """The text, with one kind of line end; a `ValueError` that calls the file by this name if there is none."""
    return _decode(data, name, encoding).replace("\r\n", "\n").replace("\r", "\n")


def _decode(data: bytes, name: str, encoding: str | None) -> str:
    """Text from bytes: by the mark at the beginning, else by where zeros stand, else UTF-8, else the Western code page.

    A file in which some lines are UTF-8 and others are not was put together from two; no guess can be right for both.
    """
    if encoding is not None:
        try:
            return data.decode(encoding)
        except (UnicodeError, LookupError) as error:
            raise ValueError(f"encoding must fit {name}, got {encoding!r}: {error}") from None
    for mark, kind in (
        (b"\xef\xbb\xbf", "utf-8-sig"),
        (b"\xff\xfe\0\0", "utf-32"),
        (b"\0\0\xfe\xff", "utf-32"),
        (b"\xff\xfe", "utf-16"),
        (b"\xfe\xff", "utf-16"),
    ):
        if data.startswith(mark):
            return _decode(data, name, kind)
    if b"\0" in data:
        return _decode(data, name, _wide_encoding(data, name))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    lines = data.splitlines()
    bad = [number for number, line in enumerate(lines, 1) if not _is_utf8(line)]
    other = [number for number, line in enumerate(lines, 1) if not line.isascii() and _is_utf8(line)]
    if other:
        raise ValueError(
            f"{name} must have one encoding, got UTF-8 in line {other[0]} and something else in line {bad[0]}: save it "
            "as UTF-8, or say which it is (encoding)"
        )
    if sum(byte < 32 and byte not in b"\t\n\r\f" for byte in data[:4096]) > 0:
        raise ValueError(f"{name} must be text or Parquet, got a binary file")
    return _decode(data, name, "cp1252")


def _wide_encoding(data: bytes, name: str) -> str:
    """UTF-16 or UTF-32 without a mark, known by the zeros of its Western letters."""
    head = np.frombuffer(data[: 4 * (min(len(data), 4096) // 4)], np.uint8).reshape(-1, 4) == 0
    share = head.mean(axis=0)
    for kind, zeros in (
        ("utf-32-le", (False, True, True, True)),
        ("utf-32-be", (True, True, True, False)),
        ("utf-16-le", (False, True, False, True)),
        ("utf-16-be", (True, False, True, False)),
    ):
        if len(head) and all((part > 0.7) if zero else (part < 0.3) for part, zero in zip(share, zeros, strict=True)):
            return kind
    line = data[: data.index(b"\0")].count(b"\n") + 1
    raise ValueError(f"{name} must be text or Parquet, got a NUL byte in line {line}: a binary or damaged file")


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
