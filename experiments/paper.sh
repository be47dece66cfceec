#!/bin/sh
# The paper from its data: pools from trained models, then every table and figure in the paper's order.
#   experiments/paper.sh DATA_ROOT [--out DIR] [--weights DIR] [--models "A B ..."] [--segmenters "..."] [--detectors "..."]
#                        [--device D] [--splits N] [--methods A,B] [--export "OPTIONS"] [--tables "OPTIONS"]
#
# DATA_ROOT has some of
#   imagenet/val/CLASS/*      imagenet-c/KIND/SEVERITY/CLASS/*      imagenet-o/CLASS/*
#   ade20k/{images,annotations}/validation/*      coco/val2017/*, coco/annotations/instances_val2017.json
#   inaturalist/val/CLASS/*, inaturalist/train/CLASS/* or train.json      domainnet/{real,clipart,painting,sketch}/CLASS/*,
#   domainnet/classes.txt with the 126 classes, if the folders have more
# What is missing is named at the end, and the rest is done. A run that was stopped goes on where it was.
# --weights DIR: DIR/{imagenet,ade20k,coco,inaturalist,domainnet} have checkpoints NAME.pth; without such a folder members
# have the trained weights of their package (for inaturalist and domainnet there are none). `none`: weights drawn at random.
# --models: members instead of the paper's fourteen backbones, --segmenters and --detectors instead of its dense members; each
# may end with options of that export. Where dense members of the paper are missing, torchvision's own networks stand in for them: for
# COCO with torchvision's weights that are on this machine, for both with DIR/{ade20k,coco}/NAME.pth. --export: options of every export. --methods: of the comparisons (all). --tables: options
# of compare, ablate and sweep.
# Results go to DIR (paper-results): a folder for each benchmark, with NAME.txt, .json, .md, .csv and .tex for each table.
# docs/export.md lists the tables, and what a run costs. Exit code 1 if something failed, 2 if there was nothing to do.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
usage() {
    sed -n '2,/^# docs/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
[ $# -ge 1 ] && [ -d "$1" ] || usage
data=$1
shift
out=paper-results weights='' models=paper segmenters=paper detectors=paper device='' splits=3 methods='' export='' tables=''
while [ $# -ge 2 ]; do
    case $1 in
        --out) out=$2 ;;
        --weights) weights=$2 ;;
        --models) models=$2 ;;
        --segmenters) segmenters=$2 ;;
        --detectors) detectors=$2 ;;
        --device) device=$2 ;;
        --splits) splits=$2 ;;
        --methods) methods=$2 ;;
        --export) export=$2 ;;
        --tables) tables=$2 ;;
        *) usage ;;
    esac
    shift 2
done
[ $# -eq 0 ] || usage
tool=${CORESTACK_TOOL:-$here/build/corestack}
export PYTHONPATH="$here/python${PYTHONPATH:+:$PYTHONPATH}"
[ -n "${CORESTACK_LIBRARY:-}" ] || export CORESTACK_LIBRARY="$(dirname "$tool")/libcorestack.so"
python=${PYTHON:-/usr/bin/python3}
[ -x "$tool" ] || {
    echo "paper.sh: $tool is not there: make build, or set CORESTACK_TOOL" >&2
    exit 2
}
mkdir -p "$out" || exit 2
missing='' failed='' done_any=''
say() { echo "paper.sh: $*" >&2; }
miss() { missing="$missing$1
"; }
fail() {
    failed="$failed$1
"
    say "$1: failed"
}

# A benchmark's weights: the user's folder for it, none, or the package's. Empty: the members cannot be had.
weights_of() { # benchmark, trained weights in packages (yes or no)
    if [ "$weights" = none ]; then
        echo none
    elif [ -n "$weights" ] && [ -d "$weights/$1" ]; then
        echo "$weights/$1"
    elif [ "$2" = yes ]; then
        echo default
    fi
}

# The paper's members that are installed, and stand-ins that have these weights, or those that the user named.
members_of() { # classification, segmentation or detection, members, weights if there are stand-ins
    if [ "$2" = paper ]; then
        "$python" "$here/experiments/paper_members.py" "$1" ${3:+"$3"}
    else
        echo "$2"
    fi
}

# Makes a pool, or adds splits to it.
pool() { # benchmark's command, folder of the pool, members, weights, options...
    command=$1 folder=$2 members=$3 of=$4
    shift 4
    say "$command"
    # shellcheck disable=SC2086
    "$python" -m corestack.pool "$command" "$folder" ${members:+--models $members --weights "$of"} ${device:+--device "$device"} \
        $export "$@" || {
        fail "export $command"
        return 1
    }
    done_any=yes
}

# Writes one table in all forms, unless it is there and newer than the pool.
table() { # name, pool, command, options...
    name=$1 manifest=$2/pool.json
    shift 2
    if [ -e "$out/$name.json" ] && [ "$out/$name.json" -nt "$manifest" ]; then
        return 0
    fi
    say "$name"
    mkdir -p "$(dirname "$out/$name")"
    command=$1
    shift
    [ "$command" != compare ] || [ -z "$methods" ] || set -- --methods "$methods" "$@"
    # shellcheck disable=SC2086
    "$python" "$here/experiments/paper_table.py" "$out/$name" "$command" "$manifest" "$@" $tables || fail "$name"
}

# Draws a figure as PNG, SVG and PDF from tables, and writes its caption.
figure() { # kind, tables...
    kind=$1
    shift
    count=$#
    for name in "$@"; do
        [ -e "$out/$name.json" ] || return 0
        set -- "$@" "$out/$name.json"
    done
    shift "$count"
    mkdir -p "$out/figures"
    for end in png svg pdf; do
        drawn=$out/figures/$kind.$end
        if [ ! -e "$drawn" ] || [ -n "$(find "$@" -newer "$drawn")" ]; then
            say "figures/$kind.$end"
            "$python" -m corestack.plot "$kind" "$@" -o "$drawn" >"$out/figures/$kind.txt" || fail "figure $kind"
        fi
    done
}

models=$(members_of classification "$models")

# ---- Table "ImageNet-1K classification"
imagenet=$out/pools/imagenet
if [ -d "$data/imagenet/val" ]; then
    own=$(weights_of imagenet yes)
    pool imagenet "$imagenet" "$models" "$own" --val "$data/imagenet/val" && {
        [ ! -d "$data/imagenet-c" ] || pool imagenet-c "$imagenet" "" "" --data "$data/imagenet-c"
        [ ! -d "$data/imagenet-o" ] || pool imagenet-o "$imagenet" "" "" --data "$data/imagenet-o"
        table imagenet/table "$imagenet" compare --splits "$splits" --holdout 0.2
    }
else
    miss "imagenet/val: tables ImageNet-1K, ablation, threshold and deployment, ImageNet-C, ImageNet-O, pool size, kappa"
fi

# ---- Table "ImageNet-C robustness"
if [ -f "$imagenet/pool.json" ]; then
    if [ -d "$data/imagenet-c" ]; then
        table imagenet-c/table "$imagenet" compare --split corrupted --clean test --reference-errors alexnet --splits "$splits"
    else
        miss "imagenet-c: table ImageNet-C"
    fi
fi

# ---- Table "Dense prediction"
dense() { # benchmark, task, members, score
    if [ ! -d "$data/$1" ]; then
        miss "$1: table Dense prediction, $4"
        return
    fi
    own=$(weights_of "$1" yes)
    found=$(members_of "$2" "$3" "$own")
    if [ -z "$found" ]; then
        miss "$1: no network of an installed package has weights for it; give --weights DIR with $1/NAME.pth, or name members"
    else
        pool "$1" "$out/pools/$1" "$found" "$own" --data "$data/$1" && table "$1/table" "$out/pools/$1" compare --splits "$splits" --holdout 0.2
    fi
}
dense ade20k segmentation "$segmenters" mIoU
dense coco detection "$detectors" AP

# ---- Table "iNaturalist-2021 long-tail recognition"
if [ -d "$data/inaturalist/val" ]; then
    own=$(weights_of inaturalist no)
    counts=$data/inaturalist/train.json
    [ -e "$counts" ] || counts=$data/inaturalist/train
    if [ -z "$own" ]; then
        miss "inaturalist: no package has weights trained on it; give --weights DIR with inaturalist/NAME.pth"
    elif [ ! -e "$counts" ]; then
        miss "inaturalist/train or train.json: the training counts of table iNaturalist-2021"
    else
        pool inaturalist "$out/pools/inaturalist" "$models" "$own" --val "$data/inaturalist/val" --training-counts "$counts" &&
            table inaturalist/table "$out/pools/inaturalist" compare --splits "$splits" --holdout 0.2
    fi
else
    miss "inaturalist/val: table iNaturalist-2021"
fi

# ---- Table "DomainNet-126 domain-shift evaluation": with the domain-aware meta-layer, without it, and without target labels
if [ -d "$data/domainnet" ]; then
    own=$(weights_of domainnet no)
    set --
    [ ! -e "$data/domainnet/classes.txt" ] || set -- --classes "$data/domainnet/classes.txt"
    if [ -n "$own" ]; then
        pool domainnet "$out/pools/domainnet" "$models" "$own" --data "$data/domainnet" "$@" && {
            table domainnet/table "$out/pools/domainnet" compare --split clipart,painting,sketch --splits "$splits" --set domain.aware=true
            table domainnet/without "$out/pools/domainnet" compare --split clipart,painting,sketch --splits "$splits" --set domain.aware=false
        }
        pool domainnet "$out/pools/domainnet-real" "$models" "$own" --data "$data/domainnet" --meta real "$@" &&
            table domainnet/real "$out/pools/domainnet-real" compare --split clipart,painting,sketch --splits "$splits"
    else
        miss "domainnet: no package has weights trained on it; give --weights DIR with domainnet/NAME.pth"
    fi
else
    miss "domainnet: table DomainNet-126"
fi

# ---- Table "Cumulative component ablation", paragraphs "OOD detection" and "Scaling behavior", table "CKA threshold
# sensitivity", table "Inference efficiency"
if [ -f "$imagenet/pool.json" ]; then
    table imagenet/ablation "$imagenet" ablate --split test
    if [ -d "$data/imagenet-o" ]; then
        table imagenet/ood "$imagenet" compare --split test --ood imagenet-o
    else
        miss "imagenet-o: paragraph OOD detection"
    fi
    members=$("$python" -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["models"]))' "$imagenet/pool.json")
    sizes=4:$members:2
    [ "$members" -gt 4 ] || sizes=2:$members:1
    table imagenet/pool-size "$imagenet" sweep --split test --over "pool.size=$sizes" --methods paper,average,ridge
    table imagenet/threshold "$imagenet" sweep --split test --over cka.threshold=0.70:0.95:0.05 --methods paper
    model=$out/imagenet/paper.cstack
    if [ ! "$model" -nt "$imagenet/pool.json" ]; then
        "$tool" fit "$imagenet/pool.json" --preset paper -o "$model" -q >"$out/imagenet/fit.txt" || fail "imagenet/fit"
    fi
    if [ -e "$model" ] && [ ! "$out/imagenet/deployment.txt" -nt "$model" ]; then
        say imagenet/deployment
        "$tool" profile "$model" "$imagenet/pool.json" -q >"$out/imagenet/deployment.partial" &&
            mv "$out/imagenet/deployment.partial" "$out/imagenet/deployment.txt" || fail "imagenet/deployment"
    fi
fi

# ---- Figure "Gram condition number vs. top-1 accuracy", and those of the paragraphs and tables above
figure kappa imagenet/table imagenet/ablation
figure pareto imagenet/table
figure ablation imagenet/ablation
figure tau imagenet/threshold
figure pool-size imagenet/pool-size

[ -z "$missing" ] || printf 'Not there, and left out:\n%s' "$missing" >&2
[ -z "$failed" ] || {
    printf 'Failed:\n%s' "$failed" >&2
    exit 1
}
[ -n "$done_any" ] || {
    echo "paper.sh: nothing to do in $data; the head of this script says how its folders are named" >&2
    exit 2
}
