#!/bin/sh
# Everything of docs/language-models.md, from Debian's packages: all.sh [options of run.py]. Needs Debian 12, python3-torch,
# python3-sentencepiece and the tool; training takes about an hour on two cores.
set -e
cd "$(dirname "$0")"
mkdir -p work/packages work/text
if [ ! -f work/train.npy ]; then
    (cd work/packages && apt-get download linux-doc-6.1 python3.11-doc perl-doc)
    for package in work/packages/*.deb; do dpkg-deb -x "$package" work/text; done
    python3 text.py work/text
fi
python3 train.py
python3 run.py "$@"
