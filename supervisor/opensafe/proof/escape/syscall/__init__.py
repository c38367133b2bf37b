"""The boundary between a guest's calls and what answers them: the call filter, the sentry, and the host around both."""
