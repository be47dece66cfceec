# Reads the public headers and writes a C table of every CST_API function: its name, the kinds of its parameters, and a call
# of it with NULL and 0 in every place but the context.
# Kinds: c context, * other pointers, n whole numbers, d doubles, e enumerations and structs.

# Headers without comments, as one text.
FNR == 1 { count = split(FILENAME, folders, "/"); includes = includes "#include <corestack/" folders[count] ">\n" }
{
    line = $0
    while (line != "") {
        if (inside) {
            at = index(line, "*/")
            if (!at) break
            line = substr(line, at + 2)
            inside = 0
        } else {
            at = index(line, "/*")
            if (!at) { text = text " " line; break }
            text = text " " substr(line, 1, at - 1)
            line = substr(line, at + 2)
            inside = 1
        }
    }
}

function kind_of(parameter) {
    if (parameter ~ /^cst_context \*[a-z_]*$/ || parameter ~ /^const cst_context \*[a-z_]*$/) return "c"
    if (parameter ~ /\*/ || parameter ~ /_fn [a-z_]+$/) return "*"
    if (parameter ~ /^(int|int32_t|int64_t|uint64_t|size_t|unsigned) /) return "n"
    if (parameter ~ /^double /) return "d"
    return "e"
}

function call(name, kinds,    i, k, list) {
    for (i = 1; i <= length(kinds); i++) {
        k = substr(kinds, i, 1)
        list = list (i > 1 ? ", " : "") (k == "c" ? "context" : k == "*" ? "NULL" : "0")
    }
    return name "(" list ")"
}

END {
    print "/* Made from the public headers by tests/faults/public_functions.awk. */"
    printf "%s", includes
    gsub(/[ \t]+/, " ", text)
    count = split(text, parts, "CST_API ")
    for (i = 2; i <= count; i++) {
        if (parts[i] !~ /^[^;(]*cst_[a-z0-9_]+\(/) continue
        prototype = substr(parts[i], 1, index(parts[i], ";") - 1)
        open = index(prototype, "(")
        head = substr(prototype, 1, open - 1)
        inner = substr(prototype, open + 1, length(prototype) - open - 1)
        match(head, /cst_[a-z0-9_]+$/)
        name = substr(head, RSTART)
        result = substr(head, 1, RSTART - 1)
        gsub(/ +$/, "", result)
        kinds = ""
        if (inner != "void") {
            n = split(inner, parameters, ",")
            for (j = 1; j <= n; j++) {
                parameter = parameters[j]
                gsub(/^ +| +$/, "", parameter)
                kinds = kinds kind_of(parameter)
            }
        }
        printf "static cst_status call_%s(cst_context *context) {\n    (void)context;\n", name
        printf "    %s%s;\n", result == "cst_status" ? "return " : "(void)", call(name, kinds)
        if (result != "cst_status") print "    return CST_OK;"
        print "}"
        table = table sprintf("    {\"%s\", \"%s\", %s, call_%s},\n", name, kinds,
            result == "cst_status" ? "true" : "false", name)
    }
    print "static const public_function PUBLIC[] = {"
    printf "%s", table
    print "};"
}
