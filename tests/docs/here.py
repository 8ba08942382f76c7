"""A `mere` for the shell of a page, whose commands are carried out by this process.

It has imported everything already, and has the suite's warm JVM. What starts or uses a process of its own stays one:
`mere engine`, `mere serve`, and `--spark`, which is for the warm engine.
"""

from __future__ import annotations

import contextlib
import json
import os
import socketserver
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from click.testing import CliRunner

STUB = """\
#!{python} -IS
import json, os, socket, sys
if sys.argv[1:2] in (["engine"], ["serve"]) or "--spark" in sys.argv:
    os.execv({mere!r}, [{mere!r}, *sys.argv[1:]])
typed = sys.stdin.read()  # before it is this command's turn: it may come from another one
with socket.socket(socket.AF_UNIX) as line:
    line.connect({address!r})
    line.sendall(json.dumps([os.getcwd(), dict(os.environ), sys.argv[1:], typed]).encode() + b"\\n")
    out, err, exit_code = json.loads(line.makefile().read())
sys.stdout.write(out)
sys.stdout.flush()
sys.stderr.write(err)
sys.exit(exit_code)
"""


class Answer(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        from mere.cli import main

        folder, environment, arguments, typed = json.loads(self.rfile.readline())
        # The shell waits for the answer, and this process for the shell: nobody else looks at these meanwhile.
        with contextlib.chdir(folder), mock.patch.dict(os.environ, environment, clear=True):
            done = CliRunner().invoke(main, arguments, input=typed)
        failed = done.exception and not isinstance(done.exception, SystemExit)
        trace = "".join(traceback.format_exception(done.exception)) if failed else ""
        self.wfile.write(json.dumps([done.stdout, done.stderr + trace, done.exit_code]).encode())


@contextlib.contextmanager
def mere_in(folder: Path) -> Iterator[None]:
    """While it lasts, the folder has a `mere` that hands what is typed to this process."""
    address = str(folder / "line")
    stub = folder / "mere"
    stub.write_text(STUB.format(python=sys.executable, mere=str(Path(sys.executable).parent / "mere"), address=address))
    stub.chmod(0o755)
    with socketserver.UnixStreamServer(address, Answer) as server:
        thread = threading.Thread(target=server.serve_forever, name="mere-docs")
        thread.start()
        yield
        server.shutdown()
        thread.join()
