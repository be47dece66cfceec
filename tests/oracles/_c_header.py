"""Arrays as C source, for the fixtures that are headers."""

import numpy as np


def array(kind, name, values, form="%.17g"):
    """On one line."""
    text = ", ".join("NAN" if np.isnan(v) else form % v for v in np.ravel(values).tolist())
    return f"static const {kind} {name}[] = {{{text}}};\n"


def array_in_lines(kind, name, values):
    """In lines of at most 100 characters; floats in the fewest digits that give them back."""
    suffix = {"double": "", "float": "f"}.get(kind)
    words = [str(int(v)) if suffix is None else repr(float(v)).replace("inf", "INFINITY") + suffix for v in np.ravel(values)]
    lines, line = [], "   "
    for word in words:
        if len(line) + len(word) + 2 > 98:
            lines.append(line)
            line = "   "
        line += f" {word},"
    return f"static const {kind} {name}[] = {{\n" + "\n".join([*lines, line]) + "\n};\n"
