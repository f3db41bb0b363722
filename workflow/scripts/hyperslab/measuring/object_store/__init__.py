"""Object stores: data are written here, put into a bucket, and read through a gateway of the cell's own."""

# Of the environment, the credentials for a store that is there; the last one may be missing.
KEY, SECRET, TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
