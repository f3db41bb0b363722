"""Run the nodes of HSDS, as its own command starts them: python serve.py DIRECTORY ROOT PASSWORDS NODES

DIRECTORY is for their sockets, ROOT for their objects, "" where these are in a store. The command `hsds`
gives up when a socket is not there after ten seconds, so long may a busy machine take; whoever started this
one has patience. It imports nothing of Hyperslab.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from urllib.parse import quote

# <linux/prctl.h>
PR_SET_PDEATHSIG = 1


def commands(directory: str, root: str, passwords: str, nodes: int) -> list[list[str]]:
    """Return the commands of the service node and of the data nodes."""

    def address(name: str) -> str:
        return f"http+unix://{quote(f'{directory}/{name}.sock', safe='')}"

    urls = ",".join(sorted(address(f"dn_{number + 1}") for number in range(nodes)))
    node = [sys.executable, os.path.join(sys.prefix, "bin", "hsds-node")]
    common = [
        "--standalone", "--use_socket", f"--dn_urls={urls}", f"--hsds_endpoint={address('sn_1')}",
        f"--password_file={passwords}", "--log_level=WARNING", *([f"--root_dir={root}"] if root else []),
    ]  # fmt: skip
    service = [*node, "--node_type=sn", "--log_prefix=sn ", f"--sn_url={address('sn_1')}", *common]
    data = [
        [*node, "--node_type=dn", f"--log_prefix=dn{number + 1} ", f"--node_number={number}", *common]
        for number in range(nodes)
    ]
    return [service, *data]


def main() -> None:
    """Run the command; it ends with the first node that does."""
    directory, root, passwords, nodes = sys.argv[1:]
    libc, mine = ctypes.CDLL(None), os.getpid()

    def end_with_this_one() -> None:
        # Who watches over all of them may be killed, and this process with it.
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != mine:
            os._exit(1)

    for words in commands(directory, root, passwords, int(nodes)):
        subprocess.Popen(words, stdin=subprocess.DEVNULL, preexec_fn=end_with_this_one)
    number, status = os.wait()
    sys.exit(f"node {number} of HSDS has ended with status {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    main()
