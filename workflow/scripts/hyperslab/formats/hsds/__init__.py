"""HSDS through h5pyd: the server of a cell, its client, and what its objects are."""
