# Completion of corestack for bash.

_corestack_options() {
    local common="--json --threads --memory --color --quiet --verbose --help"
    local pool="--labels --ids --folds --order --groups --weights --domains --id-column --label-column --class-names --positive --values --task --ignore --layout --classes --missing --allow-outside"
    [[ $1 == adapt || $1 == online || $1 == monitor ]] && pool=${pool/--task --ignore --layout /}
    case $1 in
        fit) echo "--cascade --alpha --confidence --cascade-risk --target-transform --metric --cost-matrix --metric-command --output --preset --method --set --seed --split --label-noise --suspects --html $pool $common" ;;
        predict) echo "--cascade --decide --output --like --column --formulas --format --id-map --variance --intervals --level --guard --batch --label-shift --max-detections --min-score --top --split $pool $common" ;;
        online) echo "--split --output --formulas --state --delay --pending --members --alpha --block $pool $common" ;;
        evaluate) echo "--metric --cost-matrix --metric-command --split --annotations --against --boundary --baselines --ood --clean --reference-errors --head --tail --resamples --seed --csv --markdown --latex $pool $common" ;;
        compare) echo "--target-transform --metric --cost-matrix --metric-command --split --splits --holdout --methods --list-methods --reference --with --ood --clean --reference-errors --head --tail --resamples --seed --set --save --html --csv --markdown --latex $pool $common" ;;
        monitor) echo "--metric --cost-matrix --metric-command --split --state --alpha --in-order --html $pool $common" ;;
        adapt) echo "--metric --cost-matrix --metric-command --output --split --rows --row-labels --unlabeled --suggest $pool $common" ;;
        ablate) echo "--target-transform --metric --cost-matrix --metric-command --split --resamples --seed --set --save --csv --markdown --latex $pool $common" ;;
        sweep) echo "--target-transform --metric --cost-matrix --metric-command --over --draws --split --methods --resamples --seed --set --html --csv --markdown --latex $pool $common" ;;
        inspect) echo "--preset --set --seed --split --label-noise --suspects --html $pool $common" ;;
        show) echo "--split $pool $common" ;;
        report) echo "--output --split --resamples --seed $pool $common" ;;
        profile) echo "--split --batch --seconds --repeats --parallel --methods --list-methods --seed --set --csv --markdown --latex $pool $common" ;;
        bound) echo "--split --delta --alpha --batch-split --shift --by --miss-cost --risk --sets --seed --leakage --validation $pool $common" ;;
        folds) echo "--labels --task --count --groups --time --order --output --seed $common" ;;
        "soup uniform") echo "--output $common" ;;
        "soup greedy") echo "--output --eval --labels --task --values --metric $common" ;;
        "swag fit") echo "--output --rank $common" ;;
        "swag sample") echo "--output --rank --count --scale --seed $common" ;;
        soup | swag) echo "--help" ;;
        swa) echo "--output --from $common" ;;
        export) echo "--format --output --name --values $common" ;;
        options) echo "--markdown $common" ;;
        help) echo "$common" ;;
    esac
}

_corestack() {
    local commands="fit predict online evaluate compare adapt monitor ablate sweep inspect show report profile bound folds soup swa swag export options help"
    local current=${COMP_WORDS[COMP_CWORD]}
    local previous=${COMP_WORDS[COMP_CWORD - 1]}
    local command=${COMP_WORDS[1]}
    local whole=$command
    [[ ($command == soup || $command == swag) && $COMP_CWORD -gt 2 ]] && whole+=" ${COMP_WORDS[2]}"
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "$commands --help --version" -- "$current")
        return
    fi
    if [[ $command == soup && ($previous == --metric || $previous == -m) ]]; then
        mapfile -t COMPREPLY < <(compgen -W "top1 nll brier ece rmse mae" -- "$current")
        return
    fi
    if [[ $command == export && ($previous == --format || $previous == -f) ]]; then
        mapfile -t COMPREPLY < <(compgen -W "onnx c wasm" -- "$current")
        return
    fi
    case $previous in
        --preset | -p) mapfile -t COMPREPLY < <(compgen -W "default compact best paper prototype" -- "$current") ;;
        --color) mapfile -t COMPREPLY < <(compgen -W "auto always never" -- "$current") ;;
        --values) mapfile -t COMPREPLY < <(compgen -W "probability logit" -- "$current") ;;
        --missing) mapfile -t COMPREPLY < <(compgen -W "allow error" -- "$current") ;;
        --task) mapfile -t COMPREPLY < <(compgen -W "classification regression segmentation detection multilabel" -- "$current") ;;
        --members) mapfile -t COMPREPLY < <(compgen -W "all kept" -- "$current") ;;
        --format) mapfile -t COMPREPLY < <(compgen -W "maps maps-float16 labels png" -- "$current") ;;
        --layout) mapfile -t COMPREPLY < <(compgen -W "channels-last channels-first" -- "$current") ;;
        --methods | --method | -m | --reference)
            mapfile -t COMPREPLY < <(compgen -W "$(corestack compare --list-methods 2>/dev/null |
                sed -n '/^Each/q; s/^  \([a-z][a-z0-9-]*\)  *[^ ].*/\1/p') all" -- "$current")
            ;;
        --over)
            compopt -o nospace
            mapfile -t COMPREPLY < <(compgen -W "pool.size= $(corestack options 2>/dev/null |
                sed -n 's/^  \([a-z][a-z0-9_.]*\) = .*/\1=/p')" -- "$current")
            ;;
        --save)
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -d -- "$current")
            ;;
        --split | --ood | --clean) mapfile -t COMPREPLY < <(compgen -W "oof test" -- "$current") ;;
        --set | -s)
            compopt -o nospace
            mapfile -t COMPREPLY < <(compgen -W "$(corestack options 2>/dev/null |
                sed -n 's/^  \([a-z][a-z0-9_.]*\) = .*/\1=/p')" -- "$current")
            ;;
        --threads | -t | --memory | --seed | --delta | --alpha | --count | -L | --resamples | -r | --draws | --rank | --scale | -n | --eval | -e | --ignore | --classes | --head | --tail | --boundary | --batch | --seconds | --repeats) ;;
        *)
            if [[ $current == -* ]]; then
                mapfile -t COMPREPLY < <(compgen -W "$(_corestack_options "$whole")" -- "$current")
            elif [[ $command == soup && $COMP_CWORD == 2 ]]; then
                mapfile -t COMPREPLY < <(compgen -W "uniform greedy" -- "$current")
            elif [[ $command == swag && $COMP_CWORD == 2 ]]; then
                mapfile -t COMPREPLY < <(compgen -W "fit sample" -- "$current")
            elif [[ $command == help ]]; then
                mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
            else
                compopt -o filenames
                mapfile -t COMPREPLY < <(compgen -f -- "$current")
            fi
            ;;
    esac
}

complete -F _corestack corestack
