#!/bin/sh
# A Debian package, build-deb/corestack_VERSION_ARCH.deb: the tool, the library and its headers, manual pages, completions,
# documentation and the Python modules. DEB_MAINTAINER="Name <address>" says who makes it.
set -eu
cd "$(dirname "$0")/.."
: "${JOBS:=$(nproc 2>/dev/null || echo 2)}"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1700000000)}
export SOURCE_DATE_EPOCH
work=$PWD/build-deb
mkdir -p "$work"
rm -f "$work"/*.deb
umask 022
{
    cmake -S . -B "$work" -G Ninja -Wno-dev -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr -DCST_TESTS=OFF -DCST_MPI=OFF \
        -DCST_DEB=ON ${DEB_MAINTAINER:+"-DCPACK_DEBIAN_PACKAGE_MAINTAINER=$DEB_MAINTAINER"} &&
        cmake --build "$work" --parallel "$JOBS" && cpack --config "$work/CPackConfig.cmake" -B "$work"
} >"$work/log" 2>&1 || {
    tail -n 40 "$work/log" >&2
    exit 1
}
rm -rf "$work/_CPack_Packages"
ls -l "$work"/*.deb
