#!/bin/sh
# Makes the Debian package (scripts/deb.sh), which lintian must accept without an error, unpacks it, and uses what is in it:
# the tool, its manual page, the Python modules, and the library from a program of one's own. Where it may, it also installs
# and removes the package, on a layer over the system that is thrown away.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
scripts/deb.sh
package=$(echo "$PWD"/build-deb/*.deb)
lintian --allow-root --fail-on error --tag-display-limit 0 "$package"
dpkg -x "$package" "$work"
usr=$work/usr
libraries=$(dirname "$(find "$usr/lib" -name libcorestack.a)")
scripts/check_hardening.sh "$usr/bin/corestack" "$libraries/libcorestack.so"
dpkg-deb -f "$package" Depends | tr ',' '\n' | sed 's/^ *//; s/[ :].*//' | while read -r needed; do
    dpkg-query -W -f '${db:Status-Status}\n' "$needed" | grep -q installed # a name that Debian has
done

examples=$PWD/examples
(
    cd "$work"
    unset CORESTACK_LIBRARY PYTHONPATH
    "$usr/bin/corestack" fit "$examples/regression/pool.json" -o model.cstack --set evaluate.nested=false >fit.txt
    "$usr/bin/corestack" predict model.cstack "$examples/regression/pool.json" -o tool.npy >predict.txt
    man -l "$usr/share/man/man1/corestack-fit.1.gz" >page.txt 2>/dev/null || zcat "$usr/share/man/man1/corestack-fit.1.gz" >page.txt
    grep -q corestack page.txt
    LD_LIBRARY_PATH=$libraries PYTHONPATH=$usr/lib/python3/dist-packages /usr/bin/python3 -c '
import sys, corestack, numpy
assert corestack.__file__.startswith(sys.argv[1]), corestack.__file__
found = corestack.load("model.cstack").predict(sys.argv[2])
assert found.tobytes() == numpy.load("tool.npy").reshape(found.shape).tobytes()' "$usr" "$examples/regression/pool.json"
    export PKG_CONFIG_PATH="$libraries/pkgconfig"
    # shellcheck disable=SC2046 # flags are words
    gcc "$examples/fit_and_save.c" $(pkg-config --define-variable=prefix="$usr" --cflags --libs corestack) -o fit_and_save
    LD_LIBRARY_PATH=$libraries ./fit_and_save "$examples/regression/pool.json" other.cstack >/dev/null
)
bash -n "$usr/share/bash-completion/completions/corestack"
for file in copyright changelog.gz; do [ -e "$usr/share/doc/corestack/$file" ]; done
echo "$(basename "$package"): unpacked and used"

cp "$package" "$work/corestack.deb"
cp -r "$examples/regression" "$work/"
mkdir "$work/layer"
layer="mount -t tmpfs none $work/layer && mkdir $work/layer/on $work/layer/by $work/layer/root &&
    mount -t overlay overlay -o lowerdir=/,upperdir=$work/layer/on,workdir=$work/layer/by $work/layer/root"
if ! unshare -m sh -c "$layer" 2>/dev/null; then
    echo "not installed: no layers here"
    exit 0
fi
cat >"$work/use.sh" <<'USE'
set -eu
unset CORESTACK_LIBRARY PYTHONPATH LD_LIBRARY_PATH
cd "$1"
dpkg -i corestack.deb
/usr/bin/corestack predict model.cstack regression/pool.json -o installed.npy
cmp installed.npy tool.npy
/usr/bin/python3 -c 'import corestack; assert corestack.load("model.cstack").kept'
[ -n "$(ls /usr/lib/python3/dist-packages/corestack/__pycache__)" ]
man -w corestack-fit
dpkg -r corestack
[ ! -e /usr/lib/python3/dist-packages/corestack ]
USE
unshare -m sh -c "$layer && chroot $work/layer/root sh $work/use.sh $work" >"$work/installed.txt" 2>&1 || {
    cat "$work/installed.txt" >&2
    exit 1
}
echo "$(basename "$package"): installed, used and removed"
