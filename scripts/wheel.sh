#!/bin/sh
# A binary wheel of the Python package, build-wheel/*.whl, that needs glibc and zlib alone: OpenBLAS (which starts no threads),
# LAPACK, Jansson, libpng and yajl are linked in, libzip lies beside, without OpenSSL. For Debian's packages of these.
#
# The tag is that of PEP 600: manylinux_2_NN for the newest version of glibc of which a symbol is used. A library that the
# manylinux rules do not allow, or a symbol that nobody has, is an error.
set -eu
cd "$(dirname "$0")/.."
: "${JOBS:=$(nproc 2>/dev/null || echo 2)}"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1700000000)}
export JOBS LC_ALL=C SOURCE_DATE_EPOCH
python=/usr/bin/python3
work=$PWD/build-wheel
own=$work/corestack.libs
rm -rf "$work"
mkdir -p "$own"
trap 'rm -rf "$work/unpacked" "$work/build"' EXIT

make --no-print-directory build
archive() { # pkg-config's name, file
    file=$(pkg-config --variable=libdir "$1")/$2
    [ -e "$file" ] || {
        echo "wheel.sh: there is no $file: apt-get install the package that has it" >&2
        exit 1
    }
    echo "$file"
}
libraries=$(pkg-config --variable=libdir libzip)
onnx= # where the library was built with it
[ ! -e "$libraries/libprotobuf-c.a" ] || onnx=$libraries/libprotobuf-c.a

# libzip under a name of its own, so that it is never taken for another that the process has loaded.
echo 'OPENSSL_3.0.0 { AES*; EVP*; HMAC*; PKCS5*; RAND*; };' >"$work/no_crypto.map"
gcc -O2 -fPIC -shared -Wall -Wextra scripts/wheel/no_crypto.c -o "$own/libcorestack-nocrypto.so" \
    -Wl,-soname,libcorestack-nocrypto.so -Wl,--version-script="$work/no_crypto.map" -Wl,-z,relro -Wl,-z,now
cp "$(readlink -f "$libraries/libzip.so")" "$own/libcorestack-zip.so"
for change in '--set-soname libcorestack-zip.so' '--remove-needed libbz2.so.1.0' \
    '--replace-needed libcrypto.so.3 libcorestack-nocrypto.so' '--set-rpath $ORIGIN'; do
    # shellcheck disable=SC2086 # words
    patchelf $change "$own/libcorestack-zip.so" # one at a time, as version 0.14 mixes them up
done

# What a shared library may be made of beside position-independent code is in scripts/wheel/static.c.
gcc -O2 -fPIC -shared -Wall -Wextra scripts/wheel/static.c -o "$work/libcorestack.so" \
    -Wl,--whole-archive build/libcorestack.a -Wl,--no-whole-archive "$(archive lapacke liblapacke.a)" "$(archive openblas libopenblas.a)" \
    "$(archive jansson libjansson.a)" "$(archive libpng libpng16.a)" "$libraries/libyajl_s.a" ${onnx:+"$onnx"} "$own/libcorestack-zip.so" -lz -lm \
    -Wl,--wrap=stdin -Wl,--wrap=stderr -Wl,--wrap=hypot -Wl,--wrap=openblas_num_threads_env -Wl,--gc-sections -Wl,--as-needed -Wl,--strip-all -Wl,-z,defs \
    -Wl,--version-script=build/corestack.map -Wl,-soname,libcorestack.so -Wl,-rpath,'$ORIGIN/../corestack.libs' -Wl,--enable-new-dtags \
    -Wl,-rpath-link,"$own" -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -Wl,-z,text -Wl,-z,separate-code

# ---- the rules of manylinux ----
for file in "$work/libcorestack.so" "$own"/*.so; do
    readelf -dW "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'
done | sort -u | grep -vxE 'libcorestack-.*|lib(c|m|z|dl|rt|pthread|gcc_s)\.so\.[0-9]|ld-linux-x86-64\.so\.2' >"$work/others" || true
if [ -s "$work/others" ]; then
    echo "wheel.sh: manylinux allows none of these libraries: $(tr '\n' ' ' <"$work/others")" >&2
    exit 1
fi
newest=$(for file in "$work/libcorestack.so" "$own"/*.so; do nm -D --undefined-only "$file"; done |
    sed -n 's/.*@GLIBC_2\.\([0-9]*\).*/\1/p' | sort -n | tail -n 1)
tag=manylinux_2_${newest}_$(uname -m)

# ---- the wheel ----
CORESTACK_LIBRARY=$work/libcorestack.so CORESTACK_BUILD=$work/build $python setup.py --quiet bdist_wheel \
    --plat-name "$tag" --dist-dir "$work/plain" >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    exit 1
}
$python -m wheel unpack --dest "$work/unpacked" "$work"/plain/*.whl >/dev/null
inside=$(echo "$work"/unpacked/*)
cp -r "$own" "$inside"
# Whose code is inside, and on which terms.
for package in libopenblas-dev liblapacke-dev libjansson-dev libpng-dev libyajl-dev libzip-dev libxxhash-dev librandom123-dev \
    ${onnx:+libprotobuf-c-dev}; do
    printf '==== %s %s ====\n\n' "$package" "$(dpkg-query -W -f '${Version}' $package)"
    cat /usr/share/doc/$package/copyright
    echo
done >"$(echo "$inside"/*.dist-info)/LICENSES.third-party"
$python -m wheel pack --dest-dir "$work" "$inside" >/dev/null
rm -rf "$work/plain"
ls -l "$work"/*.whl
