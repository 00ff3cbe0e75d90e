"""A stream that can be read by several readers, each at its own position."""

from __future__ import annotations

import io
import os
import weakref
from tempfile import SpooledTemporaryFile
from typing import Any, Final, cast

from django.conf import settings
from django.http import UnreadablePostError

CHUNK_SIZE: Final = 64 * 1024
"""Bytes read at once, as Django's upload handlers do."""


class BodyReader(io.BufferedIOBase):
    """A position in a spooled body; any number of them are independent of each other."""

    def __init__(self, spool: Spool, position: int = 0) -> None:
        """Begin at `position`, in bytes."""
        self._spool = spool
        self._position = position

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next `size` bytes, fewer at the end; all that is left for -1 or None."""
        data = self._spool.read_at(self._position, -1 if size is None else size)
        self._position += len(data)
        return data

    def peek(self, size: int = 1, /) -> bytes:
        """Return bytes ahead and stay; `io` builds `readline` and iteration on it."""
        return self._spool.read_at(self._position, max(size, io.DEFAULT_BUFFER_SIZE))

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to `offset` bytes from the start, from here or from the end."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position}.get(whence)
        self._position = max(0, offset + (self._spool.size() if base is None else base))
        return self._position

    def tell(self) -> int:
        """Return the position in bytes."""
        return self._position

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def seekable(self) -> bool:
        """Say that it can be moved; `HttpRequest.body` asks, to measure before it reads."""
        return True


class KeptStream(BodyReader):
    """The view's own reader, which owns the spool: where it is closed, the spool is."""

    def open(self) -> BodyReader:
        """Return another reader of the same body, from its first byte."""
        return BodyReader(self._spool)

    def size(self) -> int:
        """Return the length of the whole body in bytes, which reads it to its end."""
        return self._spool.size()

    def close(self) -> None:
        """Close the spool and the stream from which it was filled."""
        self._spool.close()
        super().close()


class Spool:
    """What has been read from the client so far, in memory or, past a limit, on disk."""

    def __init__(self, source: Any, file: Any) -> None:
        """Take the client's stream, and the file that may hold the beginning of it already."""
        self._source = source
        self._file = file
        self._file.seek(0, os.SEEK_END)
        self._length: int = self._file.tell()  # Python 3.10's spooled seek() returns None
        # No __del__: DRF's request refers to itself, and within a cycle the file's own
        # finalizer, which complains, may come first.
        self._close_file = weakref.finalize(self, file.close)

    def read_at(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position` on, all there are for -1."""
        self._fill(None if size < 0 else position + size)
        self._file.seek(position)
        return cast(bytes, self._file.read(size))

    def size(self) -> int:
        """Return the length of the whole body in bytes, which reads it to its end."""
        self._fill(None)
        return self._length

    def close(self) -> None:
        """Close the file and the client's stream."""
        self._close_file()
        self._source.close()

    def _fill(self, end: int | None) -> None:
        while end is None or self._length < end:
            chunk = self._pull(CHUNK_SIZE if end is None else min(CHUNK_SIZE, end - self._length))
            if not chunk:
                return
            self._file.seek(self._length)
            self._length += self._file.write(chunk)

    def _pull(self, size: int) -> bytes:
        try:
            return cast(bytes, self._source.read(size))
        except OSError as error:
            raise UnreadablePostError(*error.args) from error


def temporary_file() -> Any:
    """Return an empty file, in memory up to Django's limit for uploads and then on disk."""
    # For SpooledTemporaryFile 0 means no limit, for Django it means at once to disk.
    limit = max(1, settings.FILE_UPLOAD_MAX_MEMORY_SIZE)
    return SpooledTemporaryFile(max_size=limit, dir=settings.FILE_UPLOAD_TEMP_DIR)
