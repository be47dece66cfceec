#!/bin/sh
# Installs the Debian packages that a set of tasks needs and that are missing, one line for each with the reason.
# Says and does nothing when all is there.
#
#   scripts/dependencies.sh [--check] build|test|networks|oracles|fuzz|long|packages|images ...
#
# --check only names what is missing, and fails if anything is.
set -eu

list_build() {
    cat <<'LIST'
gcc                 the C compiler
libc6-dev           headers of the C library
cmake               configures the build
ninja-build         runs the build
pkgconf             finds the libraries below
libopenblas-dev     matrix products (BLAS)
liblapacke-dev      eigenvalues and Cholesky factors (LAPACK from C)
libjansson-dev      reads pool manifests, writes results as JSON
libzip-dev          reads .npz archives
libpng-dev          reads and writes label maps of segmentation
zlib1g-dev          reads .csv.gz files
libyajl-dev         reads COCO annotations and detections of any size
librandom123-dev    counter-based random numbers
libxxhash-dev       hashes of sample ids
LIST
}

list_test() {
    cat <<'LIST'
git                 lists the files that the repository checks look at
libcmocka-dev       runs the unit tests
g++                 compiles the headers as C++
clang               second compiler, ThreadSanitizer
libclang-rt-14-dev  runtime of clang's sanitizers
clang-format        checks the layout of the sources
clang-tidy          checks the sources for mistakes
valgrind            checks memory use of the release build
cppcheck            checks the sources for mistakes, by other means
openmpi-bin         starts the ranks of the tests of corestack-mpi
libopenmpi-dev      builds corestack-mpi
libprotobuf-c-dev   builds the export to ONNX
protobuf-c-compiler builds the export to ONNX
libonnx-dev         the definition of ONNX that its export is built from
python3-onnx        checks exported graphs
abigail-tools       compares the interface of the library with the stored one
binutils            reads what a library holds and how it was linked
groff-base          checks that the manual pages are well formed
zsh                 reads the completions for zsh
locales             a decimal comma, which numbers must not depend on
python3             runs the tests of the command line
python3-numpy       arrays for the tests of the command line and of the Python package
python3-venv        virtual environment that the Python package is tested in
python3-pip         installs the Python package
python3-setuptools  builds the Python package
python3-wheel       builds the Python package
python3-sklearn     the estimators of the Python package and scikit-learn's checks of them
python3-pandas      data frames in the tests of the Python package
python3-mpi4py      processes that fit together in the tests of the Python package
python3-tqdm        progress bars in the tests of the Python package
python3-matplotlib  plots in the tests of the Python package
mypy                checks the types of the Python package
LIST
}

list_networks() {
    cat <<'LIST'
python3-torch       networks for the tests of python -m corestack.pool
python3-torchvision networks for the tests of python -m corestack.pool
LIST
}

list_fuzz() {
    cat <<'LIST'
llvm                coverage of the fuzz targets
xz-utils            packs the inputs that fuzzing found
LIST
}

list_long() {
    cat <<'LIST'
gcovr               lines and branches that the tests reach
gcc-aarch64-linux-gnu compiles the vectorised loops for ARM
qemu-user           runs them
chromium            opens the pages of reports (with npm)
mpich               starts the ranks of corestack-mpi by another MPI
libmpich-dev        builds corestack-mpi with another MPI
slurmctld           hands out the jobs of the tests of corestack-mpi
slurmd              runs them
munge               lets these two know each other
LIST
}

list_packages() {
    cat <<'LIST'
patchelf            names the libraries that lie beside the one of the wheel
python3-setuptools  builds the wheel
python3-wheel       builds the wheel
dpkg-dev            finds out what the Debian package depends on
lintian             checks the Debian package
LIST
}

list_images() {
    cat <<'LIST'
npm                 fetches the images that experiments train on (scripts/images.sh), and onnxruntime
LIST
}

list_oracles() {
    cat <<'LIST'
python3             runs the reference computations
python3-numpy       reference computations
python3-scipy       reference computations: optimisation, distributions
python3-sklearn     reference computations: regressions, folds, example pools
python3-torch       reference computations: gradients of the gate, example pools
LIST
}

check_only=no
if [ "${1:-}" = --check ]; then
    check_only=yes
    shift
fi
wanted=
for set in "$@"; do
    case $set in
    build | test | networks | oracles | fuzz | long | packages | images) wanted="$wanted
$("list_$set")" ;;
    *)
        echo "dependencies.sh: unknown set '$set'; use build, test, networks, oracles, fuzz, long, packages or images" >&2
        exit 2
        ;;
    esac
done

if ! command -v dpkg-query >/dev/null 2>&1; then
    # Not Debian: CMake says what is missing, by the name it knows.
    exit 0
fi
# shellcheck disable=SC2016 # ${...} is a field of dpkg-query's
missing=$(printf '%s\n' "$wanted" | while read -r package why; do
    if [ -n "$package" ] &&
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | head -c 9)" != installed ]; then
        printf '%-19s %s\n' "$package" "$why"
    fi
done | sort -u -k 1,1)
[ -n "$missing" ] || exit 0

packages=$(printf '%s\n' "$missing" | cut -d ' ' -f 1 | tr '\n' ' ')
if [ $check_only = yes ]; then
    {
        echo "These packages are needed and missing:"
        printf '%s\n' "$missing" | sed 's/^/  /'
        echo "Install them with 'make dependencies', or: apt-get install $packages"
    } >&2
    exit 1
fi
echo "Installing through apt what is missing:"
printf '%s\n' "$missing" | sed 's/^/  /'

as_root=
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "This takes root and sudo is not installed. As root, run: apt-get install $packages" >&2
        exit 1
    fi
    as_root=sudo
fi
apt() {
    # shellcheck disable=SC2086 # empty when root
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@"
}
start=$(date +%s)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
    # shellcheck disable=SC2086 # one argument for each package
    apt install -y --no-install-recommends $packages >"$log" 2>&1
}
# Fresh machines have no package lists, old ones have lists that name versions no longer there: ask for new lists
# where the first try fails.
if ! install; then
    if ! apt update >>"$log" 2>&1 || ! install; then
        cat "$log" >&2
        echo "apt could not install: $packages" >&2
        exit 1
    fi
fi
echo "Installed in $(($(date +%s) - start)) s."
