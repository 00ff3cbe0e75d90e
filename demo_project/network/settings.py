"""The settings of the card network: another process, another database, another port."""

from ..settings import (
    BASE_DIR,
    DEMO_FAULTS,
    DEMO_OWNS_DATABASE,
    SECRET_KEY,
    SQLITE_OPTIONS,
)
from ..settings import DEMO_VAR as PARENT

__all__ = ["BASE_DIR", "DEMO_FAULTS", "DEMO_OWNS_DATABASE", "SECRET_KEY"]

DEMO_VAR = PARENT / "network"
DEMO_VAR.mkdir(parents=True, exist_ok=True)

# Always SQLite, whatever the demo's own database is: the two have nothing in common.
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DEMO_VAR / "network.sqlite3",
        "OPTIONS": SQLITE_OPTIONS,
        "CONN_MAX_AGE": 60,  # Seconds.
    }
}

ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "demo_project.network.urls"
USE_TZ = True
TIME_ZONE = "UTC"

INSTALLED_APPS = ["rest_framework", "idempotency_app", "demo_project.network"]

MIDDLEWARE = [
    # Outermost, so that what it delays, loses or kills has been committed.
    "demo_project.network.middleware.misbehave",
    "demo_project.network.middleware.count_requests",
]

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "demo_project.network.authentication.MerchantAuthentication"
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    # There are no users here, so Django's are not installed.
    "UNAUTHENTICATED_USER": None,
}
