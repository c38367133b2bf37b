"""The workspace's tests: they run in the sandbox, and what they check is the sandbox they run in."""

import json
import os
import pathlib
import socket
import unittest

WORKSPACE = pathlib.Path("/workspace")


class Till(unittest.TestCase):
    def test_the_app_was_written(self):
        self.assertIn("export function total", (WORKSPACE / "src/app.ts").read_text())

    def test_the_package_is_described(self):
        self.assertEqual(json.loads((WORKSPACE / "package.json").read_text())["name"], "till")

    def test_nothing_was_installed(self):
        self.assertFalse((WORKSPACE / "node_modules").exists())


class Sandbox(unittest.TestCase):
    def test_we_are_not_root(self):
        self.assertNotEqual(os.getuid(), 0)

    def test_files_can_be_made(self):
        scratch = WORKSPACE / "scratch"
        scratch.write_text("x")
        scratch.unlink()

    def test_the_network_is_out_of_reach(self):
        with self.assertRaises(OSError), socket.create_connection(("192.0.2.1", 80), timeout=5):
            pass


if __name__ == "__main__":
    unittest.main()
