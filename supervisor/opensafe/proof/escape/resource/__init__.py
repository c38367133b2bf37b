"""The resource boundary: whatever a guest or a client can make grow, counted by the host."""
