"""Ten lines: a sandbox, a command, and a policy's no. Run it with `python examples/sdk/quickstart.py`."""

from opensafe.client import Denied, Sandbox

with Sandbox.create("quickstart") as box:
    box.files.write("answer.py", "print(6 * 7)")
    print(box.bash("python3 answer.py").stdout, end="")
    try:
        box.bash("curl https://evil.example.com")
    except Denied as no:
        print(f"{no.rule}: {no.value}")
