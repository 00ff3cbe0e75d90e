"""Encryption at rest, extra `[encryption]`: Fernet with the keys of `ENCRYPTION_KEYS`.

Recorded headers and bodies, and the results of steps, are encrypted with the first key and read
with any of them. To rotate, put a new key first; take the old one out when the longest
retention has passed and no key is unresolved that was encrypted with it. What nobody can read
any more is never run again: a replay is answered 409 `response-not-kept`, and work that
had begun steps 409 `outcome-unknown`.

The form is Fernet's (https://github.com/fernet/spec): AES-128-CBC, HMAC-SHA256, and the time
of encryption, which is in clear. Make a key with `cryptography.fernet.Fernet.generate_key()`.
"""

from __future__ import annotations

from collections.abc import Sequence

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from ..exceptions import Unreadable


class FernetCipher:
    """Encrypt with the newest key, decrypt with any."""

    def __init__(self, keys: Sequence[str | bytes]) -> None:
        """Take url-safe base64 keys of 32 bytes, newest first. Raises ValueError for others."""
        self._fernet = MultiFernet([Fernet(key) for key in keys])

    def encrypt(self, clear: bytes) -> bytes:
        """Return an ASCII token, about four thirds as long."""
        return self._fernet.encrypt(clear)

    def decrypt(self, token: bytes) -> bytes:
        """Return what was encrypted. Raises Unreadable where no key fits."""
        try:
            return self._fernet.decrypt(token)
        except InvalidToken as error:
            raise Unreadable("Encrypted with a key that is not in ENCRYPTION_KEYS.") from error
