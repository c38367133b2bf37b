"""The boundary between a guest's files and the host's, and between those of two guests."""
