#!/bin/sh
# tests/long/weight_space.sh on machines that lack what it needs: it fails and says what is missing, and is not left out
# in silence. Modules of Python and npm are stand-ins.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tests/long" "$work/bin" "$work/modules"
cp "$root/tests/long/weight_space.sh" "$work/tests/long"
failed=0
expect_failure() { # words that its message must have
    if PATH=$work/bin:$PATH PYTHONPATH=$work/modules "$work/tests/long/weight_space.sh" >"$work/out" 2>&1; then
        echo "it passed without what it needs ($1)" >&2
        failed=1
    fi
    if ! grep -q "$1" "$work/out"; then
        echo "it did not say: $1" >&2
        cat "$work/out" >&2
        failed=1
    fi
}
printf '#!/bin/sh\nexit 1\n' >"$work/bin/npm"
chmod +x "$work/bin/npm"
echo 'raise ImportError("a stand-in")' >"$work/modules/torch.py"
: >"$work/modules/sklearn.py"
: >"$work/modules/scipy.py"
expect_failure 'PyTorch, scikit-learn or SciPy is not installed'
: >"$work/modules/torch.py"
expect_failure 'no images in data/npm'
exit $failed
