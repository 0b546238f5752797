"""Runs a command in a terminal of its own, in which somebody types.

usage: terminal.py SCRIPT COMMAND ARGUMENTS...     SCRIPT: JSON, [[text that must have been printed, what is typed then], ...]

Prints what the command prints, and exits as it exits; 100 if an expected text did not come.
"""
import json
import os
import pty
import sys

script = json.loads(sys.argv[1])
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
printed = ""
while True:
    try:
        data = os.read(terminal, 65536)
    except OSError:  # EIO: the last process has closed it
        break
    if not data:
        break
    sys.stdout.write(data.decode())
    sys.stdout.flush()
    printed += data.decode()
    while script and script[0][0] in printed:
        os.write(terminal, script[0][1].encode())
        script.pop(0)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
sys.exit(100 if script else status if status >= 0 else 128 - status)
