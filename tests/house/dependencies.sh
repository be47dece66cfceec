#!/bin/sh
# scripts/dependencies.sh on machines that it imitates: dpkg-query, apt-get, id and sudo are stand-ins on PATH that log
# what they were asked.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/base"
failed=0
# The few programs the script itself may use; sudo is among the stand-ins only where it is wanted.
for tool in sh env printf sort cut tr sed head cat mktemp rm grep date; do
    ln -s "$(command -v $tool)" "$work/base/$tool"
done
stand_in() { # name, script
    printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}
# Installed: what the file names.
stand_in dpkg-query "for package; do :; done; grep -qx \"\$package\" $work/installed && printf installed"
stand_in apt-get "echo \"apt-get \$* frontend=\$DEBIAN_FRONTEND\" >>$work/asked
case \"\$*\" in
*update*) : >$work/lists ;;
*) [ -e $work/lists ] || { echo 'E: Unable to locate package'; exit 100; }
   for word; do echo \"\$word\"; done >>$work/installed ;;
esac"
run() {
    : >"$work/asked"
    status=0
    PATH=$work/bin:$work/base "$root/scripts/dependencies.sh" "$@" >"$work/out" 2>"$work/err" || status=$?
}
expect() { # what, command...
    what=$1
    shift
    "$@" || {
        echo "not so: $what" >&2
        cat "$work/out" "$work/err" "$work/asked" >&2
        failed=1
    }
}
# shellcheck disable=SC2317 # called through expect
said() { grep -q -e "$1" "$work/$2"; }
# shellcheck disable=SC2317
quiet() { [ ! -s "$work/out" ] && [ ! -s "$work/err" ] && [ ! -s "$work/asked" ]; }

stand_in id 'echo 0'
printf '%s\n' gcc libc6-dev cmake ninja-build pkgconf libopenblas-dev liblapacke-dev libzip-dev libpng-dev zlib1g-dev libyajl-dev \
    librandom123-dev libxxhash-dev \
    >"$work/installed"
run --check build
expect "--check fails" [ $status = 1 ]
expect "--check names the package and why" said 'libjansson-dev .*JSON' err
expect "--check installs nothing" [ ! -s "$work/asked" ]

run build
expect "installs" [ $status = 0 ]
expect "says what and why" said 'libjansson-dev .*JSON' out
expect "asks for new lists where there are none" said '^apt-get .*update' asked
expect "installs without recommended packages or questions" \
    said 'install -y --no-install-recommends libjansson-dev *frontend=noninteractive' asked
expect "names nothing that is there" sh -c "! grep -q -e cmake '$work/out' '$work/asked'"
expect "root needs no sudo" sh -c "! grep -q sudo '$work/asked'"
run build
expect "does nothing when all is there" quiet
run --check build
expect "--check passes when all is there" [ $status = 0 ]

stand_in id 'echo 1000'
grep -v libzip-dev "$work/installed" >"$work/fewer" && mv "$work/fewer" "$work/installed"
run build
expect "without root and sudo: fails" [ $status = 1 ]
expect "without root and sudo: gives the command" said 'As root, run: apt-get install libzip-dev' err
stand_in sudo "echo \"sudo\" >>$work/asked; exec \"\$@\""
run build
expect "without root: through sudo" [ $status = 0 ]
expect "without root: sudo was used" said '^sudo' asked

grep -v libzip-dev "$work/installed" >"$work/fewer" && mv "$work/fewer" "$work/installed"
stand_in apt-get "echo 'E: no network'; exit 100"
run build
expect "apt fails: so does the script" [ $status = 1 ]
expect "apt fails: its words are shown" said 'E: no network' err
run --check fuzz
expect "fuzzing packs and unpacks what was found" said '^  xz-utils ' err
expect "fuzzing reads coverage" said '^  llvm ' err
expect "make fuzz asks for what fuzzing needs" sh -c "make -n -C '$root' fuzz | grep -q 'dependencies.sh .*fuzz'"
expect "make check-long does" sh -c "make -n -C '$root' check-long | grep -q 'dependencies.sh .*fuzz'"
expect "make check-long fetches images" sh -c "make -n -C '$root' check-long | grep -q 'scripts/images.sh'"
run nonsense
expect "an unknown set is refused" [ $status = 2 ]
exit $failed
