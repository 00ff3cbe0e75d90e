"""What is recorded, at rest: in clear, or sealed where `ENCRYPTION_KEYS` names a key.

Text in clear is JSON, so it begins with a bracket or a brace; sealed text begins with SEALED.
"""

from __future__ import annotations

from typing import Any

from django.utils.module_loading import import_string

from .conf import app_settings
from .exceptions import Unreadable

# Found by name, as Django finds its backends, so that the core needs no cryptography.
CIPHER = "idempotency_app.contrib.encryption.FernetCipher"
SEALED = "sealed:"


def is_sealed(text: str | None) -> bool:
    """Tell whether the text is sealed, and with it the body beside it."""
    return text is not None and text.startswith(SEALED)


def seal_text(text: str) -> str:
    """Return the text as it is stored; ASCII stays ASCII."""
    if not app_settings.ENCRYPTION_KEYS:
        return text
    return SEALED + str(_cipher().encrypt(text.encode()).decode("ascii"))


def open_text(text: str) -> str:
    """Return the text in clear. Raises Unreadable where its key is gone."""
    if not is_sealed(text):
        return text
    return str(_cipher().decrypt(text.removeprefix(SEALED).encode("ascii")).decode())


def seal_body(body: bytes) -> bytes:
    """Return the body as it is stored."""
    return bytes(_cipher().encrypt(body)) if app_settings.ENCRYPTION_KEYS else body


def open_body(body: bytes) -> bytes:
    """Return a sealed body in clear. Raises Unreadable where its key is gone."""
    return bytes(_cipher().decrypt(body))


def _cipher() -> Any:
    """Return the cipher: encrypts with the newest key, decrypts with any, else Unreadable."""
    if not app_settings.ENCRYPTION_KEYS:
        raise Unreadable("Encrypted, and ENCRYPTION_KEYS names no key.")
    return import_string(CIPHER)(app_settings.ENCRYPTION_KEYS)
