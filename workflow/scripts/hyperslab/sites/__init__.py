"""Sites: platforms and file systems, as they are described, found and prepared."""
