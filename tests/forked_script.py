"""Run a script in a process that finds everything imported: python -IS forked_script.py NAME SCRIPT.

NAME is that of the socket of the process that forks scripts (preloaded.py). This one has its streams, and
ends with its status. In place of SCRIPT there may be `-m snakemake …`, which makes pages after a failure.
"""

import _socket
import json
import os
import sys

server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
server.connect(b"\0" + os.fsencode(sys.argv[1]))
request = json.dumps({"arguments": sys.argv[2:], "cwd": os.getcwd(), "env": dict(os.environ)}).encode()
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
server.sendmsg([request], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
status = int(server.recv(64) or 1)
# As a shell tells that a signal ended a process.
sys.exit(status if status >= 0 else 128 - status)
