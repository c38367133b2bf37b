"""The boundary between a guest's processes and the host's."""
