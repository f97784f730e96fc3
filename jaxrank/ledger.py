"""A file of finished trials that survives a kill at any moment.

Records are only ever appended. Each is one line of JSON (what follows, how long it is, its checksum) and the arrays'
bytes; a record that a kill cut short fails its checksum and is dropped when the file is opened again.
"""

import json
import zlib
from pathlib import Path

import numpy as np


class Ledger:
    """Rows of named arrays, appended to a file; opening an existing file gives back its rows."""

    def __init__(self, path: str | Path, fingerprint: str):
        self.path = Path(path)
        self.records: list[dict[str, np.ndarray]] = []
        good = 0
        if self.path.exists():
            data = self.path.read_bytes()
            good = self._read(data, fingerprint)
        self._file = self.path.open("r+b" if self.path.exists() else "w+b")
        self._file.truncate(good)
        self._file.seek(good)
        if good == 0:
            self._file.write(json.dumps({"jaxrank_ledger": 1, "fingerprint": fingerprint}).encode() + b"\n")
            self._file.flush()

    def _read(self, data: bytes, fingerprint: str) -> int:
        """Take in all whole records; the length of the file up to the end of the last one."""
        end = data.find(b"\n")
        if end < 0:
            return 0
        try:
            header = json.loads(data[:end])
            found = header["fingerprint"]
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"checkpoint must be a file that simulate wrote, got {str(self.path)!r}") from None
        if found != fingerprint:
            rule = "must belong to the same simulation (key, settings, trials, budget, precision)"
            raise ValueError(f"checkpoint {rule}, got {str(self.path)!r} of another one")
        position = end + 1
        while True:
            end = data.find(b"\n", position)
            if end < 0:
                return position
            try:
                head = json.loads(data[position:end])
                body = data[end + 1 : end + 1 + head["length"]]
            except (ValueError, KeyError, TypeError):
                return position
            if len(body) < head["length"] or zlib.crc32(body) != head["checksum"]:
                return position
            record, start = {}, 0
            for name, kind, shape in head["arrays"]:
                count = int(np.prod(shape))
                record[name] = np.frombuffer(body, kind, count, start).reshape(shape)
                start += record[name].nbytes
            self.records.append(record)
            position = end + 1 + head["length"]

    def append(self, rows: dict[str, np.ndarray]) -> None:
        """Add one record and hand it to the operating system."""
        arrays = {name: np.ascontiguousarray(value) for name, value in rows.items()}
        body = b"".join(value.tobytes() for value in arrays.values())
        head = {
            "arrays": [[name, value.dtype.str, list(value.shape)] for name, value in arrays.items()],
            "length": len(body),
            "checksum": zlib.crc32(body),
        }
        self._file.write(json.dumps(head).encode() + b"\n" + body)
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
