"""What the network's gunicorn serves."""

import os

from django.core.wsgi import get_wsgi_application

# Not a default: the demo that starts this process has named its own settings.
os.environ["DJANGO_SETTINGS_MODULE"] = "demo_project.network.settings"

application = get_wsgi_application()
