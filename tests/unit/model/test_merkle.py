"""The tree and its proofs: known answers of Certificate Transparency's test tree, and every proof against its root."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opensafe.model import merkle

#: The eight leaves that implementations of RFC 6962 are tested with, and the roots of the trees of the first 1 to 8.
LEAVES = [bytes.fromhex(text) for text in (
    "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"
)]  # fmt: skip
ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
HASHES = [merkle.leaf(line) for line in LEAVES]
SIZES = st.integers(1, 70)


def hashes(size):
    return [merkle.leaf(b"%d" % number) for number in range(size)]


def flipped(data):
    return bytes([data[0] ^ 1]) + data[1:]


@pytest.mark.parametrize("size", range(1, 9))
def test_known_roots(size):
    assert merkle.root(HASHES[:size]).hex() == ROOTS[size - 1]


def test_the_empty_tree_has_the_hash_of_nothing():
    assert merkle.root([]).hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize(
    ("index", "size", "path"),
    [
        (0, 1, []),
        (0, 8, [HASHES[1].hex(), "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
                "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"]),
        (5, 8, ["bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
                "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
                "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"]),
        (2, 3, ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"]),
    ],
)  # fmt: skip
def test_known_inclusion(index, size, path):
    assert [one.hex() for one in merkle.inclusion(HASHES[:size], index)] == path


@given(SIZES, st.data())
def test_each_leaf_is_proven_in_its_place_and_no_other(size, data):
    leaves = hashes(size)
    index = data.draw(st.integers(0, size - 1))
    path = merkle.inclusion(leaves, index)
    assert merkle.root_by_inclusion(leaves[index], index, size, path) == merkle.root(leaves)
    assert merkle.root_by_inclusion(flipped(leaves[index]), index, size, path) != merkle.root(leaves)
    for position in range(len(path)):
        changed = [*path[:position], flipped(path[position]), *path[position + 1 :]]
        assert merkle.root_by_inclusion(leaves[index], index, size, changed) != merkle.root(leaves)
    for wrong in [*path, leaves[0]], path[:-1]:
        if wrong != path:
            with pytest.raises(ValueError, match="path is too"):
                merkle.root_by_inclusion(leaves[index], index, size, wrong)


@given(SIZES, st.data())
def test_a_tree_is_proven_to_begin_a_larger_one(size, data):
    leaves = hashes(size)
    first = data.draw(st.integers(1, size))
    older = merkle.root(leaves[:first])
    path = merkle.consistency(leaves, first)
    assert merkle.roots_by_consistency(first, size, older, path) == (older, merkle.root(leaves))
    for position in range(len(path)):
        changed = [*path[:position], flipped(path[position]), *path[position + 1 :]]
        assert merkle.roots_by_consistency(first, size, older, changed) != (older, merkle.root(leaves))
    for wrong in [*path, leaves[0]], path[:-1]:
        if wrong != path:
            with pytest.raises(ValueError, match="path is too"):
                merkle.roots_by_consistency(first, size, older, wrong)


def test_a_rewritten_beginning_has_no_proof():
    """CP-14: whoever rewrites the log can't show that the old checkpoint's tree begins the new one."""
    old, forged = hashes(5), [merkle.leaf(b"x"), *hashes(9)[1:]]
    path = merkle.consistency(forged, 5)
    assert merkle.roots_by_consistency(5, 9, merkle.root(old), path)[0] != merkle.root(old)


@given(st.integers(0, 70), st.integers(0, 70))
def test_a_frontier_goes_on_where_it_was_kept(first, more):
    leaves = hashes(first + more)
    kept = merkle.Frontier()
    for one in leaves[:first]:
        kept.append(one)
    again = merkle.Frontier(kept.size, kept.hashes)
    for one in leaves[first:]:
        again.append(one)
    assert again.root() == merkle.root(leaves)


@pytest.mark.parametrize(("size", "count"), [(-1, 0), (0, 1), (1, 0), (2, 2), (3, 1)])
def test_a_frontier_of_another_size_is_refused(size, count):
    with pytest.raises(ValueError, match="full subtrees"):
        merkle.Frontier(size, [bytes(32)] * count)


@pytest.mark.parametrize(("index", "size"), [(-1, 0), (0, 0), (3, 0), (-1, 3), (3, 3)])
def test_what_is_not_in_the_tree_has_no_proof(index, size):
    with pytest.raises(IndexError):
        merkle.inclusion(hashes(size), index)
    with pytest.raises(ValueError, match="of"):
        merkle.root_by_inclusion(bytes(32), index, size, [])
    with pytest.raises(IndexError):
        merkle.consistency(hashes(size), index if index != 3 else size + 1)


@given(SIZES, st.data())
def test_a_growing_tree_learns_the_paths_that_a_whole_one_has(size, data):
    wanted = data.draw(st.sets(st.integers(0, size - 1)))
    tree, paths = merkle.Paths(), {}
    for index, one in enumerate(hashes(size)):
        if index in wanted:
            paths[index] = tree.append_wanted(one)
        else:
            tree.append(one)
    assert tree.root() == merkle.root(hashes(size))
    assert paths == {index: merkle.inclusion(hashes(size), index) for index in wanted}


def test_a_growing_tree_without_leaves_has_the_empty_root():
    assert merkle.Paths().root() == merkle.EMPTY
