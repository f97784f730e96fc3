"""Files that are written whole or not at all."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """A context with a temporary file beside `path`, which takes its place at the end; every `save` writes in this way.

    Where the block fails or the process is killed, the file at `path` is as it was. Of a link, the file it leads to is
    replaced. What is no regular file, such as a pipe, is written to directly.

    Args:
      path: of the file to be written.

    Returns:
      A context manager that gives the path to write to, with the same suffix.

    Example:
      >>> path = getfixture("tmp_path") / "numbers.txt"
      >>> with jr.atomic_write(path) as temporary:
      ...     _ = temporary.write_text("1 2 3")
      >>> path.read_text(), [file.name for file in path.parent.iterdir()]
      ('1 2 3', ['numbers.txt'])
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        yield target
        return
    temporary = target.with_name(f".{target.stem[:100]}-{secrets.token_hex(4)}{target.suffix}")
    try:
        yield temporary
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
