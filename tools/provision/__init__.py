"""The set-up program: takes a fresh machine to one that can run, test and install OpenSafe.

Standard library only, because it runs before anything else is installed.
"""
