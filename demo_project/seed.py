"""The data that the demo starts from. Its tokens and passwords are no secrets."""

from django.contrib.auth.models import Permission, User
from rest_framework.authtoken.models import Token

from .models import Member, Tenant

# (token, user, tenant). One user has one token, so acme's second token has its own user.
TOKENS = [
    ("alice-token", "alice", "acme"),
    ("alice-token-2", "alice-2", "acme"),
    ("bob-token", "bob", "globex"),
]

VIEW = ["view_idempotencykey"]
SUPPORT = [
    *VIEW,
    "view_response_idempotencykey",
    "release_idempotencykey",
    "settle_idempotencykey",
]

# Who logs in at /admin/, with the name as the password, and may do what there.
STAFF = {"support": SUPPORT, "viewer": VIEW}
SUPERUSER = "boss"


def seed() -> None:
    """Make what is missing, and leave alone what is there."""
    for token, user, tenant in TOKENS:
        seed_token(token, user, tenant)
    for name, permissions in STAFF.items():
        seed_staff(name, permissions)
    if not User.objects.filter(username=SUPERUSER).exists():
        User.objects.create_superuser(SUPERUSER, password=SUPERUSER)


def seed_token(key: str, username: str, slug: str) -> None:
    """Make a user of the tenant who logs in with the token alone."""
    user, _ = User.objects.get_or_create(username=username)
    tenant, _ = Tenant.objects.get_or_create(slug=slug)
    Member.objects.get_or_create(user=user, defaults={"tenant": tenant})
    Token.objects.get_or_create(user=user, defaults={"key": key})


def seed_staff(name: str, permissions: list[str]) -> None:
    """Make a user of the admin with these permissions on idempotency keys."""
    if User.objects.filter(username=name).exists():
        return
    user = User.objects.create_user(name, password=name, is_staff=True)
    user.user_permissions.set(
        Permission.objects.filter(
            content_type__app_label="idempotency_app", codename__in=permissions
        )
    )
