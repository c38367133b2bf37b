"""The control boundary: attacks on the daemon itself, beside the same on one whose check was taken out."""
