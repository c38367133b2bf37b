"""The gRPC services. Each socket serves one principal, so identity is never a field of a request."""
