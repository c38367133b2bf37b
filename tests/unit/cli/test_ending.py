"""SIGTERM ends a command by way of its cleaning up, and what it forked at once."""

import signal
import subprocess
import sys

SCRIPT = """
import os, signal, sys, time, typer
from opensafe.cli import ending
ending.on_sigterm()
forks = sys.argv[1] == "child"
told, tells = os.pipe()
if forks and (child := os.fork()):
    os.read(told, 1)  # a signal that comes within the fork itself is lost
    os.kill(child, signal.SIGTERM)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    sys.exit()
try:
    os.write(tells, b"x")
    if not forks:
        os.kill(os.getpid(), signal.SIGTERM)
    while True:
        time.sleep(0.01)
except typer.Exit as error:
    print("cleaned up", flush=True)
    sys.exit(error.exit_code)
"""


def run(which):
    return subprocess.run([sys.executable, "-c", SCRIPT, which], capture_output=True, text=True, timeout=60)


def test_the_command_cleans_up():
    ended = run("command")
    assert (ended.returncode, ended.stdout) == (128 + signal.SIGTERM, "cleaned up\n"), ended.stderr


def test_what_it_forked_does_not_go_on_as_a_second_one_of_it():
    ended = run("child")
    assert (ended.returncode, ended.stdout) == (0, f"{128 + signal.SIGTERM}\n"), ended.stderr
