"""What several test folders share: a real daemon in directories of its own."""
