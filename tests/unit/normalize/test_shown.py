"""What git, searches and files show, numbers, defaults, locals: known as far as it matters; twins are not."""

import pytest

from opensafe.normalize.shell import parse_shell


@pytest.mark.parametrize(
    ("text", "role", "path"),
    [
        ("git diff --name-only main | xargs -r grep -n x", "reads", "/workspace"),
        ("rg -l old src | xargs sed -i 's/a/b/'", "writes", "/workspace"),
        ("while read -r f; do wc -l \"$f\"; done < <(git ls-files '*.go')", "reads", "/workspace"),
        ('mapfile -t fs < <(git ls-files); wc -l "${fs[@]}"', "reads", "/workspace"),
        ("OUT=${OUT:-build}; mkdir -p \"$OUT\"", "writes", "/workspace/build"),
        ("OUT=${OUT:-/etc}; rm -rf \"$OUT\"", "deletes", "/etc"),
        ("f() { local d=$1; rm -r \"$d\"; }; f a/b", "deletes", "/workspace/a/b"),
        ("case x in a) l=a.so ;; *) l=b.so ;; esac; cat \"lib/$l\"", "reads", "/workspace/lib/*"),
        ("cp a out/app-$(date +%s).txt", "writes", "/workspace/out/app-*.txt"),
        ('x=src/a.c; cc -c "$x" -o out/$(basename "$x" .c).o', "writes", "/workspace/out/*.o"),
        ("i=1; i=$((i + 1)); cp a out/$i.txt", "writes", "/workspace/out/*.txt"),
        ("n=$(ls -t logs/*.log | head -n1); cat \"$n\"", "reads", "/workspace/logs/*.log"),
        ("trap 'rm -rf \"$t\"' EXIT\nt=$(mktemp -d)", "deletes", "/tmp/tmp.XXXXXXXXXX"),
        ("cd web; cp a ../pub/b", "writes", "/workspace/pub/b"),
        ("set -e\ncd src\ncc -o ../bin/a a.c", "writes", "/workspace/bin/a"),
        ("pushd a > /dev/null; popd > /dev/null; cat b/c", "reads", "/workspace/b/c"),
        ("old=a.b; sed \"s/${old//./\\\\.}/c/\" f", "reads", "/workspace/f"),
        ("export D=/etc; rm -r \"$D\"", "deletes", "/etc"),
    ],
)  # fmt: skip
def test_what_is_shown_is_known(text, role, path):
    found = parse_shell(text)
    assert not found.opaque, found.reasons
    assert path in {target.path for target in getattr(found, role)}


@pytest.mark.parametrize(
    "text",
    [
        "git diff main | xargs grep x", "git log --name-only | xargs rm", "cat list | xargs grep x",
        'while read -r f; do rm "$f"; done < <(cat list)', 'mapfile -t a < <(cat list); rm "${a[@]}"',
        'mapfile -t a < <(git ls-files); mapfile -t a < list; rm "${a[@]}"', 'OUT=$(cat x); OUT=${OUT:-b}; rm "$OUT"',
        'read OUT < x; rm "${OUT:-b}"', 'f() { local d=a; }; f; rm "$d/etc"',
        'f() { local d=a; d=$(cat x); rm "$d"; }; f',
        "case x in a) k=id_rsa ;; *) k=x ;; esac; cat \"/root/.ssh/$k\" > $k", 'v=$(cat x); rm "b/$v"',
        'v=$(echo x | base64 -d); cp a "b/$v"', "trap 'rm -rf \"$t\"/*' EXIT\nt=$(mktemp -d)", 'x=$(cat f); sed "$x" g',
        'v=$(cat f); sed "s/a/b/$v" g', "n=$(cat n); echo $((n + 1))", "[[ $x =~ (.*) ]]; echo $((BASH_REMATCH[1]))",
        "pushd a; popd; popd; cat b/c", ": '\necho \"'; x='a[$(id)]'; : '\"'; echo $((x))", "awk '{ print > $1 }' f",
        "v=$(sed -n 1p VERSION); cp a \"out/app-$v.txt\"", "cat src/$(cat name.txt)", "echo x > src/$(cat name.txt)",
        """cat src/$(awk 'BEGIN{d="."; print d d "/" d d "/etc/shadow"}')""", "cat a/$(date +..)/x",
        'd=src/..; cat a/$(basename "$d")/etc/x', "cat a/$(git rev-parse ../../etc/x)",
        'v=a_..; cat b/$(echo "$v" | cut -d _ -f 2)/x', "awk '{ print > (\"out/\" $1) }' f",
        """awk -v f=../../etc/cron.d/x 'BEGIN{print "evil" > "a/" f}'""",
        "a=$(ls -t logs/*.log | head -1); x=`python3 foo.py \\$HOME`; cat $x",
        "git bisect run sh -c \"$X\"", 'getopts a: o; eval "$OPTARG"', "cat l | xargs -n2 -I% rm %",
    ],
)  # fmt: skip
def test_its_twin_is_not(text):
    assert parse_shell(text).opaque


@pytest.mark.parametrize(
    "text",
    [
        "cd nope; rm -r ../home/x", "set -e\ncd a || true\nrm -r ../home/x",
        "set -e\nif cd a; then :; fi\nrm -r ../home/x",
        "(set -e; cd a); rm -r ../home/x",
    ],
)  # fmt: skip
def test_a_directory_that_may_not_have_been_entered_counts_where_something_stands(text):
    assert "/home/x" in {target.path for target in parse_shell(text).deletes}


def test_time_before_a_loop_and_digits_of_a_match():
    assert not parse_shell("time for i in 1 2; do ls; done").opaque
    assert not parse_shell("[[ $x =~ ^v([0-9]+)$ ]] && echo $((BASH_REMATCH[1] + 1))").opaque
    assert [one.program for one in parse_shell("time for i in 1; do sudo ls; done").commands] == ["ls"]
