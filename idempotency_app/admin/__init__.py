"""The admin: for looking at keys, and for the few things that a person may do to one."""

from .keys import IdempotencyKeyAdmin

__all__ = ["IdempotencyKeyAdmin"]
