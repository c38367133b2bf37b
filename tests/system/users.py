"""Users that a site grants, for the tests of calls and of files."""

from tests.harness.policy import site_bundle

GRANTED = {"nobody": True, "root": True, "www-data": True}


def settings(directory):
    """What a daemon is made with whose developers may run as these users of the image."""

    def grant(data):
        data["users"] = {"developer": {"base": GRANTED}}

    bundle, key = site_bundle(directory, change=grant)
    return {"bundle": bundle, "key": key}
