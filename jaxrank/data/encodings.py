"""Text from the bytes of a file, whichever program wrote it."""

import numpy as np


def decode(data: bytes, name: str, encoding: str | None = None) -> str:
    r"""Decode the bytes of a text file, and turn every line end into "\n".

    The encoding is found in this order: a byte order mark; the pattern of zero bytes in UTF-16 and UTF-32; UTF-8; and
    code page 1252 (Western European) if no line with a non-ASCII character is valid UTF-8.

    Args:
      data: content of the file.
      name: name of the file, for error messages.
      encoding: name of the encoding; None finds it.

    Returns:
      The text.

    Raises:
      ValueError: if the given encoding does not fit, the file is binary, or it mixes UTF-8 with another encoding.

    Example:
      >>> from jaxrank.data.encodings import decode
      >>> decode("K\xf6ln,Bonn\r\n".encode("cp1252"), "answers.csv") == "K\xf6ln,Bonn\n"
      True
    """
    return _decode(data, name, encoding).replace("\r\n", "\n").replace("\r", "\n")


def _decode(data: bytes, name: str, encoding: str | None) -> str:
    """Text from bytes, line ends as they are.

    A file with some lines in UTF-8 and some in another encoding was joined from two: no single guess is right.
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
    """UTF-16 or UTF-32 without a byte order mark, recognised by the zero bytes of its Western letters."""
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
    """Whether the line is valid UTF-8."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
