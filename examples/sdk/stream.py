"""Output as it comes, a program that is typed to, and a terminal. Run it with `python examples/sdk/stream.py`."""

from opensafe.client import Sandbox

with Sandbox.create("stream") as box:
    for piece in box.stream("for n in 1 2 3; do echo line $n; done"):
        print(piece.text, end="")
    box.files.write("upper.py", "import sys\nfor line in sys.stdin:\n    print(line.upper(), end='', flush=True)\n")
    with box.stream(["python3", "upper.py"], interactive=True) as run:
        run.send("typed\n")
        print(next(run).text, end="")
    box.files.write("ask.py", "print('hello ' + input('who? '))")
    with box.terminal("python3 ask.py") as terminal:
        terminal.read_until("who? ", timeout=30)
        terminal.write("ada\n")
        print("hello ada" in terminal.read_until("hello ada", timeout=30))
