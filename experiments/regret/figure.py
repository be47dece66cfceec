"""The figure of the regret: one row for each pool, one mark for each method, as SVG without any library."""
import math

MARKS = [("default", "#c0392b", "circle"), ("autogluon", "#2471a3", "square"), ("log-linear", "#1e8449", "diamond"),
         ("scikit-learn", "#7d3c98", "cross"), ("ridge", "#b9770e", "square"), ("average", "#566573", "diamond")]
TASKS = {"classification": ("default", "autogluon", "log-linear", "scikit-learn"),
         "regression": ("default", "ridge", "average", "scikit-learn")}
LEFT, TOP, WIDTH, STEP = 150, 46, 560, 17
LIMIT = 1.3  # ratios above are drawn at the right end


def position(ratio):
    """Square root of the excess: differences near 1 are what counts."""
    return LEFT + WIDTH * math.sqrt(min(max(ratio, 1.0), LIMIT) - 1) / math.sqrt(LIMIT - 1)


def mark(kind, x, y, colour):
    if kind == "circle":
        return f'<circle cx="{x:.1f}" cy="{y}" r="4.5" fill="{colour}"/>'
    if kind == "square":
        return f'<rect x="{x - 3.5:.1f}" y="{y - 3.5}" width="7" height="7" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    if kind == "diamond":
        return f'<path d="M{x:.1f} {y - 4.5}l4.5 4.5l-4.5 4.5l-4.5 -4.5z" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    return f'<path d="M{x - 3.5:.1f} {y - 3.5}l7 7m0 -7l-7 7" stroke="{colour}" stroke-width="1.5"/>'


def draw(pools, path):
    """Writes the figure of {pool: {task, ratio: {method: loss over that of the best method}}}."""
    height = TOP + STEP * len(pools) + 12
    shown = {n: [m for m in TASKS[f["task"]] if m in f["ratio"]] for n, f in pools.items()}
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 24}" height="{height}" '
             'font-family="sans-serif" font-size="11">',
             '<rect width="100%" height="100%" fill="white"/>']
    used = [m for m in MARKS if any(m[0] in methods for methods in shown.values())]
    for i, (name, colour, kind) in enumerate(used):
        lines += [mark(kind, LEFT + 98 * i, 10, colour), f'<text x="{LEFT + 98 * i + 9}" y="14">{name}</text>']
    for ratio in (1.0, 1.005, 1.02, 1.05, 1.1, 1.2, 1.3):
        x = position(ratio)
        label = f"{ratio:g}" if ratio < LIMIT else f"≥ {LIMIT:g}"
        lines += [f'<path d="M{x:.1f} {TOP - 10}V{height - 8}" stroke="#ddd"/>',
                  f'<text x="{x:.1f}" y="{TOP - 14}" text-anchor="middle">{label}</text>']
    for i, (name, f) in enumerate(pools.items()):
        y = TOP + STEP * i
        if i and f["task"] != list(pools.values())[i - 1]["task"]:
            lines.append(f'<path d="M10 {y - STEP / 2}H{LEFT + WIDTH}" stroke="#bbb"/>')
        lines.append(f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{name}</text>')
        lines += [mark(kind, position(f["ratio"][m]), y, colour) for m, colour, kind in reversed(used) if m in shown[name]]
    path.write_text("\n".join([*lines, "</svg>"]) + "\n")
