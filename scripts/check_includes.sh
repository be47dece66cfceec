#!/bin/sh
# Checks every #include against the graph written in docs/architecture.md (fenced blocks include-graph,
# include-graph-later and external-headers).
#
#   scripts/check_includes.sh [ROOT]     ROOT: the repository, or a copy of its layout
set -eu
cd "${1:-$(dirname "$0")/..}"
{
    # One record a line: what it is, then its fields.
    awk '/^```/ { block = ($0 ~ /^```[a-z]/) ? substr($0, 4) : ""; next }
        block == "include-graph" && NF { sub(/:/, ""); print "row", $0 }
        block == "include-graph-later" && NF { print "later", $0 }
        block == "external-headers" && NF { sub(/:/, ""); print "external", $0 }' docs/architecture.md
    find src/* weights -maxdepth 0 -type d 2>/dev/null | sed 's|^src/||; s|^|folder |'
    find src weights include cli examples \( -name '*.c' -o -name '*.h' \) 2>/dev/null | sort | while IFS= read -r file; do
        printf 'file %s\n' "$file"
        grep -nE '^[[:blank:]]*#[[:blank:]]*include' "$file" | sed "s|^\([0-9]*\):[^<\"]*\([<\"][^>\"]*[>\"]\).*|include $file \1 \2|"
    done
} | awk '
    BEGIN {
        n = split("assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign " \
            "stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar " \
            "wctype", names, " ")
        for (i = 1; i <= n; i++) c_header[names[i] ".h"] = 1
        n = split("dirent dlfcn fcntl fnmatch getopt glob ioctl libgen poll strings termios unistd sys/file sys/ioctl " \
            "sys/mman sys/resource sys/stat sys/statvfs sys/time sys/types sys/uio sys/utsname sys/wait", names, " ")
        for (i = 1; i <= n; i++) posix_header[names[i] ".h"] = 1
    }
    function fail(text) { print text > "/dev/stderr"; failed = 1 }
    $1 == "row" {
        row[$2] = ++rows
        for (i = 3; i <= NF; i++) {
            if (!($i in row))
                fail("docs/architecture.md: " $2 " may include " $i ", which has no line above it")
            may[$2, $i] = 1
        }
    }
    $1 == "later" { for (i = 2; i <= NF; i++) later[$i] = 1 }
    $1 == "external" { external[$2] = 1; for (i = 3; i <= NF; i++) user[$2, $i] = 1 }
    $1 == "folder" {
        exists[$2] = 1
        if (!($2 in row)) fail("src/" $2 " has no line in the include graph of docs/architecture.md")
        if ($2 in later) fail("src/" $2 " exists: take it off the list include-graph-later in docs/architecture.md")
    }
    $1 == "file" { file[$2] = 1; files++ }
    $1 == "include" { count++; from[count] = $2; line[count] = $3; what[count] = $4 }
    function allowed(path, name, quoted,    parts, top, folder, target, library) {
        split(path, parts, "/")
        top = parts[1]
        folder = top == "src" ? parts[2] : top
        if (quoted) {
            if (top == "include") return "a public header includes <corestack/...> only"
            if (top == "src" || top == "weights") {
                if (!(("src/" name) in file) && !(name ~ /^weights\// && name in file))
                    return "no such file in src/ or weights/, where quoted paths start"
                split(name, parts, "/")
                target = parts[1]
                if (target == folder || (folder, target) in may) return ""
                return (top == "src" ? "src/" folder : top) " may not include src/" target " (docs/architecture.md)"
            }
            sub(/\/[^\/]*$/, "", path)
            if ((path "/" name) in file || (top "/" name) in file) return ""
            return top "/ includes the public headers and files of its own folder only"
        }
        if (name ~ /^corestack\//)
            return (("include/" name) in file) ? "" : "there is no such public header"
        if (name in c_header) return ""
        if (top == "include") return "a public header includes <corestack/...> and headers of C only"
        if (name in posix_header) return ""
        library = name
        if (!(library in external)) sub(/\/.*/, "/", library)
        if (!(library in external)) return "not a header of C, of POSIX or of a library named in docs/architecture.md"
        if ((library, folder) in user) return ""
        return top "/" (top == "src" ? folder : "") " may not include it (docs/architecture.md, Libraries)"
    }
    END {
        if (!rows || !files) fail("found no include graph, or no sources")
        for (f in row)
            if (!(f in exists) && !(f in later))
                fail("docs/architecture.md has a line for src/" f ", which does not exist")
        for (f in later)
            if (!(f in row)) fail("docs/architecture.md names " f " as planned without a line in the graph")
        for (i = 1; i <= count; i++) {
            quoted = substr(what[i], 1, 1) == "\""
            text = allowed(from[i], substr(what[i], 2, length(what[i]) - 2), quoted)
            if (text != "") fail(from[i] ":" line[i] ": #include " what[i] ": " text)
        }
        exit failed
    }'
