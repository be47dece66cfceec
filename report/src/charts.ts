// Charts: an SVG of points, a heat map on one canvas, a table that sorts.
import { h, s } from "./dom";
import { number, ticks } from "./text";

// What has to be drawn again in other colours.
export const repaint: (() => void)[] = [];

export interface Point {
  x: number;
  y: number;
  low?: number;
  high?: number;
  kind?: "mine" | "other" | "off";
  label?: string;
  text: string; // what is read out
  group?: string; // a line of its own
}
export interface Axis {
  label: string;
  domain?: [number, number];
  log?: boolean;
  format?: (value: number) => string;
}
export interface Plot {
  title: string;
  points: Point[];
  x: Axis;
  y: Axis;
  line?: boolean; // through the points of a group in order of x
  mark?: { y: number; label: string }; // a line across
  band?: boolean; // from low to high
  diagonal?: boolean;
  square?: boolean;
  bars?: { from: number; to: number; value: number }[];
}

const HINT = "Point at the chart, or use the arrow keys, to read values.";

function scale(axis: Axis, values: number[], from: number, to: number) {
  const place = (value: number) => (axis.log ? Math.log10(value) : value);
  let [low, high] = axis.domain ?? [place(Math.min(...values)), place(Math.max(...values))];
  if (!axis.domain) {
    const margin = 0.06 * (high - low || Math.abs(high) || 1);
    [low, high] = [low - margin, high + margin];
  }
  return { low, high, at: (value: number) => from + ((place(value) - low) / (high - low)) * (to - from) };
}

function axes(plot: Plot, width: number, height: number, x: ReturnType<typeof scale>, y: ReturnType<typeof scale>): SVGElement[] {
  const marks: SVGElement[] = [];
  const [left, bottom, right] = [56, height - 44, width - 20];
  const across = ticks(y.low, y.high, 5);
  for (const value of across.at)
    marks.push(s("line", { class: "grid", x1: left, x2: right, y1: y.at(value), y2: y.at(value) }),
      s("text", { class: "tick", x: left - 8, y: y.at(value), dy: "0.32em", "text-anchor": "end" },
        plot.y.format ? plot.y.format(value) : number(value, across.digits)));
  const steps = x.high - x.low < 1.5 ? [1, 2, 5] : [1];
  const powers = Array.from({ length: Math.floor(x.high) - Math.floor(x.low) + 1 }, (_, i) => steps.map((step) => step * 10 ** (Math.floor(x.low) + i)))
    .flat().filter((value) => Math.log10(value) >= x.low && Math.log10(value) <= x.high);
  const shown = (value: number) => !plot.x.format || plot.x.format(value) !== "";
  const along = plot.x.log ? { at: powers, digits: 0 } : ticks(x.low, x.high, width < 500 ? 5 : 8);
  for (const value of along.at.filter(shown))
    marks.push(s("line", { class: "axis", x1: x.at(value), x2: x.at(value), y1: bottom, y2: bottom + 4 }),
      s("text", { class: "tick", x: x.at(value), y: bottom + 18, "text-anchor": "middle" },
        plot.x.format ? plot.x.format(value) : number(value, along.digits)));
  marks.push(s("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }),
    s("text", { class: "axislabel", x: right, y: height - 6, "text-anchor": "end" }, plot.x.label),
    s("text", { class: "axislabel", x: 2, y: 11 }, plot.y.label));
  return marks;
}

function draw(plot: Plot, width: number, readout: HTMLElement): SVGElement {
  const height = plot.square ? Math.min(width, 400) : width < 500 ? 270 : 320;
  if (plot.square) width = height;
  const inOrder = [...plot.points].sort((a, b) => a.x - b.x);
  const x = scale(plot.x, plot.points.map((p) => p.x), 56, width - 20);
  const y = scale(plot.y, plot.points.flatMap((p) => [p.y, p.low ?? p.y, p.high ?? p.y]).concat(plot.mark?.y ?? []), height - 44, 24);
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": plot.title, tabindex: 0 },
    ...axes(plot, width, height, x, y));
  const path = (list: [number, number][]) => "M" + list.map(([a, b]) => `${a.toFixed(1)},${b.toFixed(1)}`).join("L");
  if (plot.diagonal) svg.append(s("line", { class: "diagonal", x1: x.at(0), y1: y.at(0), x2: x.at(1), y2: y.at(1) }));
  const most = Math.max(1, ...(plot.bars ?? []).map((bar) => bar.value));
  for (const bar of plot.bars ?? []) {
    const tall = 56 * Math.sqrt(bar.value / most);
    svg.append(s("rect", { class: "count", x: x.at(bar.from) + 1, width: Math.max(0, x.at(bar.to) - x.at(bar.from) - 2), y: height - 44 - tall, height: tall }));
  }
  if (plot.band)
    svg.append(s("path", { class: "band", d: path([...inOrder.map((p): [number, number] => [x.at(p.x), y.at(p.high ?? p.y)]),
      ...inOrder.map((p): [number, number] => [x.at(p.x), y.at(p.low ?? p.y)]).reverse()]) + "Z" }));
  for (const group of plot.line ? new Set(inOrder.map((p) => p.group)) : [])
    svg.append(s("path", { class: "line", d: path(inOrder.filter((p) => p.group === group).map((p) => [x.at(p.x), y.at(p.y)])) }));
  if (plot.mark)
    svg.append(s("line", { class: "ref", x1: 56, x2: width - 20, y1: y.at(plot.mark.y), y2: y.at(plot.mark.y) }),
      s("text", { class: "tick", x: width - 20, y: y.at(plot.mark.y) - 6, "text-anchor": "end" }, plot.mark.label));
  for (const p of [...inOrder].sort((a, b) => Number(a.kind === "mine") - Number(b.kind === "mine"))) {
    if (!plot.band && p.low !== undefined)
      svg.append(s("line", { class: "interval", x1: x.at(p.x), x2: x.at(p.x), y1: y.at(p.low), y2: y.at(p.high!) }));
    svg.append(s("circle", { class: "point " + (p.kind ?? ""), cx: x.at(p.x), cy: y.at(p.y), r: p.kind === "mine" ? 6 : 4, "data-x": p.x, "data-y": p.y }));
    if (p.label)
      svg.append(s("text", { class: "label", x: Math.max(110, Math.min(width - 60, x.at(p.x))), y: Math.max(24, y.at(p.y) - 12), "text-anchor": "middle" }, p.label));
  }
  const ring = s("circle", { class: "ring", r: 9, cx: -99, cy: -99 });
  svg.append(ring);
  let current = -1;
  const show = (i: number) => {
    current = i;
    ring.setAttribute("cx", String(x.at(inOrder[i].x)));
    ring.setAttribute("cy", String(y.at(inOrder[i].y)));
    readout.textContent = inOrder[i].text;
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const [a, b] = [((event as PointerEvent).clientX - box.left) * (width / box.width), ((event as PointerEvent).clientY - box.top) * (width / box.width)];
    const far = inOrder.map((p) => (x.at(p.x) - a) ** 2 + (y.at(p.y) - b) ** 2);
    show(far.indexOf(Math.min(...far)));
  });
  svg.addEventListener("keydown", (event) => {
    const last = inOrder.length - 1;
    const key = (event as KeyboardEvent).key;
    const to: Record<string, number> = { ArrowRight: Math.min(last, current + 1), ArrowLeft: Math.max(0, current - 1), Home: 0, End: last };
    if (!(key in to)) return;
    event.preventDefault();
    show(to[key]);
  });
  return svg;
}

export function plot(of: Plot): HTMLElement {
  const readout = h("p", { class: "readout", "aria-live": "polite" }, HINT);
  const chart = h("div", { class: "chart" });
  let width = 0;
  const fit = () => {
    const now = Math.max(260, Math.floor(chart.clientWidth || 640));
    if (now === width) return;
    width = now;
    chart.replaceChildren(draw(of, width, readout));
  };
  new ResizeObserver(fit).observe(chart);
  requestAnimationFrame(fit);
  return h("div", { class: "chartbox" }, chart, readout);
}

export interface Heat {
  title: string;
  names: string[];
  value: (row: number, column: number) => number | null;
  low: number;
  high: number;
  text: (row: number, column: number) => string;
  cell?: (row: number, column: number) => string; // what stands in it
  note?: string;
}

export function heat(of: Heat): HTMLElement {
  const n = of.names.length;
  const labelled = n <= 40;
  const canvas = h("canvas", { width: n, height: n, tabindex: 0, role: "img", "aria-label": of.title });
  const readout = h("p", { class: "readout", "aria-live": "polite" }, "Point at the matrix, or use the arrow keys, to read a cell.");
  const level = (i: number, j: number) => {
    const value = of.value(i, j);
    return value === null ? -1 : Math.max(0, Math.min(1, (value - of.low) / (of.high - of.low || 1)));
  };
  const paint = () => {
    const style = getComputedStyle(document.documentElement);
    const ramp = ["--ramp0", "--ramp1", "--ramp2"].map((key) =>
      (style.getPropertyValue(key).trim().match(/[0-9a-f]{2}/gi) ?? ["00", "00", "00"]).map((part) => parseInt(part, 16)));
    const context = canvas.getContext("2d")!;
    const image = context.createImageData(n, n);
    for (let i = 0; i < n; i++)
      for (let j = 0; j < n; j++) {
        const place = 2 * level(i, j);
        const [from, to] = place < 1 ? [ramp[0], ramp[1]] : [ramp[1], ramp[2]];
        for (let c = 0; c < 3; c++) image.data[4 * (i * n + j) + c] = from[c] + (place < 1 ? place : place - 1) * (to[c] - from[c]);
        image.data[4 * (i * n + j) + 3] = place < 0 ? 0 : 255;
      }
    context.putImageData(image, 0, 0);
  };
  const mark = h("div", { class: "mark" });
  const matrix = h("div", { class: "matrix" }, canvas, mark);
  let [row, column] = [0, 0];
  const show = (i: number, j: number) => {
    row = Math.max(0, Math.min(n - 1, i));
    column = Math.max(0, Math.min(n - 1, j));
    readout.textContent = of.text(row, column);
    Object.assign(mark.style, { display: "block", left: `${(100 * column) / n}%`, top: `${(100 * row) / n}%`, width: `${100 / n}%`, height: `${100 / n}%` });
  };
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    show(Math.floor(((event.clientY - box.top) / box.height) * n), Math.floor(((event.clientX - box.left) / box.width) * n));
  });
  canvas.addEventListener("keydown", (event) => {
    const step = ({ ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] } as Record<string, number[]>)[event.key];
    if (!step) return;
    event.preventDefault();
    show(row + step[0], column + step[1]);
  });
  paint();
  repaint.push(paint);
  const grid = (kind: string, ...children: Node[]) => h("div", { class: kind, "aria-hidden": "true" }, ...children);
  if (of.cell)
    matrix.append(grid("cells", ...Array.from({ length: n * n }, (_, k) =>
      h("span", { class: level(Math.floor(k / n), k % n) > 0.55 ? "on" : null }, of.cell!(Math.floor(k / n), k % n)))));
  const digits = of.high > 2 ? 0 : 2;
  const both = h("div", { class: "heat" + (labelled ? " labelled" : "") }, labelled && grid("rowlabels", ...of.names.map((label) => h("span", {}, label))), matrix);
  both.style.setProperty("--n", String(n));
  return h("div", { class: "chartbox" }, both,
    h("p", { class: "legend" }, number(of.low, digits), h("span", { class: "ramp", "aria-hidden": "true" }), number(of.high, digits), of.note ? ` ${of.note}` : ""),
    readout);
}

// A value with its interval on the common scale of a column.
export function interval(value: number, ci: [number, number] | null, low: number, high: number, at: number | null, text: string, mine = false): SVGElement {
  const x = (v: number) => 3 + (94 * (v - low)) / (high - low || 1) + "%";
  return s("svg", { class: "forest", role: "img", "aria-label": text },
    at !== null && s("line", { class: "ref", x1: x(at), x2: x(at), y1: 0, y2: "100%" }),
    ci && s("line", { class: "interval", x1: x(ci[0]), x2: x(ci[1]), y1: "50%", y2: "50%" }),
    s("circle", { class: "point" + (mine ? " mine" : ""), cx: x(value), cy: "50%", r: mine ? 5 : 4, "data-value": value }));
}

export interface Column<T> {
  name: string;
  title?: string;
  text?: boolean; // left, and sorted as text
  narrow?: boolean; // left out on narrow screens
  value: (row: T) => number | string | null;
  cell: (row: T) => Node | string;
}

// A table whose columns sort it. start: a column, and whether it begins with the highest.
export function table<T>(caption: string, columns: Column<T>[], rows: T[], start: [number, boolean], mark?: (row: T) => string): HTMLElement {
  let [by, down] = start;
  const body = h("tbody");
  const head = h("tr");
  const said = h("p", { class: "sr", "aria-live": "polite" });
  const kind = (column: Column<T>) => (column.text ? "" : "n") + (column.narrow ? " wide" : "");
  const fill = () => {
    const sorted = [...rows].sort((a, b) => {
      const [x, y] = [columns[by].value(a), columns[by].value(b)];
      if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1;
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    });
    body.replaceChildren(...sorted.map((row) => h("tr", { class: mark?.(row) || null },
      ...columns.map((column, i) => h(i ? "td" : "th", { class: kind(column), scope: i ? null : "row" }, column.cell(row))))));
    head.replaceChildren(...columns.map((column, i) => h("th", { scope: "col", class: kind(column), "aria-sort": i === by ? (down ? "descending" : "ascending") : null },
      h("button", { type: "button", title: column.title, click: () => {
        down = by === i ? !down : false;
        by = i;
        fill();
        (head.children[i].firstChild as HTMLElement).focus();
        said.textContent = `Sorted by ${column.name}, ${down ? "descending" : "ascending"}`;
      } }, column.name))));
  };
  fill();
  return h("div", {}, h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {}, h("caption", { class: "sr" }, caption), h("thead", {}, head), body)), said);
}
