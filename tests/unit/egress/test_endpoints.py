"""Which address stands for which listed name."""

import ipaddress

from opensafe.egress.endpoints import Endpoints

NETWORK = "10.203.0.0/22"


def led(*listed, network=NETWORK):
    made = Endpoints(network)
    made.lead(listed)
    return made


def test_each_name_has_one_address_of_the_network_and_each_port_of_it_is_meant_by_the_pair():
    made = led("a.test:22", "a.test:5432", "b.test:22")
    addresses = [made.address(name) for name in ("a.test", "b.test")]
    assert len(set(addresses)) == 2
    assert all(ipaddress.IPv4Address(one) in ipaddress.IPv4Network(NETWORK) for one in addresses)
    assert sorted(made.pairs()) == sorted([(addresses[0], 22), (addresses[0], 5432), (addresses[1], 22)])
    assert [made.meant(pair) for pair in ((addresses[0], 5432), (addresses[1], 22))] == ["a.test", "b.test"]
    assert made.meant((addresses[1], 5432)) == made.meant(("10.203.3.255", 22)) == made.meant(("10.201.0.1", 22)) == ""


def test_who_is_not_listed_has_none():
    made = led("a.test:22")
    assert (made.address("b.test"), made.address("x.a.test"), made.lists("a.test", 23)) == ("", "", False)
    made.lead(())
    assert (made.address("a.test"), made.pairs(), made.lists("a.test", 22)) == ("", (), False)


def test_the_address_follows_from_the_name_also_after_a_restart_and_beside_others():
    names = [f"host-{number}.test:22" for number in range(50)]
    alone = {name: led(name).pairs()[0][0] for name in names}
    together = led(*names)
    moved = [name for name in names if together.address(name.removesuffix(":22")) != alone[name]]
    assert len(moved) <= 5  # two names that are led to one number
    assert len(set(together.pairs())) == 50


def test_a_name_keeps_its_address_and_a_freed_one_goes_to_nobody_while_there_are_others():
    made = led("a.test:22", "b.test:22", network="10.203.0.0/28")
    a, b = made.address("a.test"), made.address("b.test")
    had = {a, b}
    for number in range(12):  # as many as are left
        made.lead(["a.test:5432", f"n{number}.test:22"])
        assert made.address("a.test") == a
        given = made.address(f"n{number}.test")
        assert given not in had
        had.add(given)
    made.lead(["a.test:22", "last.test:22"])
    assert made.address("last.test") in had - {a}


def test_where_there_are_more_names_than_addresses_the_rest_has_none():
    made = led(*(f"n{number}.test:22" for number in range(20)), network="10.203.0.0/28")
    assert len(made.pairs()) == 14
    assert [made.address(f"n{number}.test") for number in range(20)].count("") == 6
