// The documents of the page, brought to one form for all tasks. Keys: docs/json.md.
import { isNumber, name, short } from "./text";

export type Doc = Record<string, any>;
export type Documents = { corestack: string } & Partial<
  Record<"fit" | "evaluate" | "compare" | "show" | "inspect" | "bound" | "monitor" | "sweep", Doc>
>;

export interface Score {
  key: string;
  name: string;
  up: boolean; // higher is better
  percent?: boolean;
  digits?: number;
  what: string;
}

const SCORES: Record<string, Score[]> = {
  classification: [
    { key: "nll", name: "NLL", up: false, what: "mean negative log-likelihood of the labels, in nats" },
    { key: "top1", name: "Top-1", up: true, percent: true, what: "share of rows whose class is right" },
    { key: "ece", name: "ECE", up: false, what: "expected calibration error" },
    { key: "brier", name: "Brier", up: false, what: "squared error of the probabilities, from 0 to 2" },
  ],
  multilabel: [
    { key: "log_loss", name: "log loss", up: false, what: "mean negative log-likelihood of the cells, in nats" },
    { key: "macro_auc", name: "AUC", up: true, what: "area under the ROC curve, mean over the labels" },
    { key: "map", name: "mAP", up: true, what: "average precision, mean over the labels" },
    { key: "micro_f1", name: "F1", up: true, what: "F1 of all cells together" },
    { key: "ece", name: "ECE", up: false, what: "expected calibration error" },
  ],
  regression: [
    { key: "rmse", name: "RMSE", up: false, digits: -1, what: "root mean squared error" },
    { key: "mae", name: "MAE", up: false, digits: -1, what: "mean absolute error" },
    { key: "r2", name: "R²", up: true, what: "share of the variance that is explained" },
    { key: "nll", name: "NLL", up: false, what: "mean negative log-likelihood, in nats" },
  ],
  segmentation: [
    { key: "miou", name: "mIoU", up: true, percent: true, what: "intersection over union, mean over the classes" },
    { key: "pixel_accuracy", name: "pixels right", up: true, percent: true, what: "share of pixels whose class is right" },
    { key: "dice", name: "Dice", up: true, percent: true, what: "Dice coefficient, mean over the classes" },
    { key: "boundary_iou", name: "Boundary IoU", up: true, percent: true, what: "IoU of the bands along boundaries" },
    { key: "nll", name: "NLL", up: false, what: "mean negative log-likelihood of the pixels, in nats" },
    { key: "ece", name: "ECE", up: false, what: "expected calibration error" },
  ],
  detection: [
    { key: "AP", name: "AP", up: true, percent: true, what: "average precision over IoU 0.50 to 0.95, mean over the categories" },
    { key: "AP50", name: "AP50", up: true, percent: true, what: "average precision at IoU 0.50" },
    { key: "AP75", name: "AP75", up: true, percent: true, what: "average precision at IoU 0.75" },
    { key: "AR100", name: "AR100", up: true, percent: true, what: "average recall with at most 100 boxes for each image" },
  ],
};

// One line of the table of methods. `scores` holds NAME and NAME_ci.
export interface Row {
  label: string;
  method: string;
  about: string;
  mine: boolean;
  scores: Doc;
  difference?: Doc; // of its scores from those of the stack
  p?: Record<string, number>; // adjusted p-value of a paired test, by score
  models: number | null;
  cost: number | null; // FLOPs relative to running all members
}

export type Verdict = "better" | "worse" | "unclear" | "untested";

export interface Board {
  source: "compare" | "evaluate" | "fit" | "nested"; // nested: a fit beside simple rules on its folds
  task: string;
  scores: Score[]; // that every row has, the first decides
  rows: Row[];
  mine: Row;
  rival: Row | null; // the best single model
  samples: number;
  unit: string;
  split: string;
}

export function taskOf(d: Documents): string {
  const docs = [d.evaluate, d.compare, d.fit, d.show, d.inspect, d.sweep];
  return docs.find((doc) => doc?.task)?.task ?? "classification";
}

export function scoresOf(task: string, metric: Doc | undefined): Score[] {
  const known = SCORES[task] ?? SCORES.classification;
  if (!metric || known.some((score) => score.key === metric.key)) return known;
  const own = { key: metric.key, name: name(metric.label), up: !!metric.higher_is_better, what: name(metric.definition) };
  return [own, ...known];
}

export const stackName = (d: Documents): string =>
  name(d.show?.preset ?? d.show?.method ?? d.fit?.preset ?? d.fit?.method ?? d.compare?.reference ?? "the stack");

// FLOPs of a set of members over those of all; null where the pool does not say.
function costOf(d: Documents): number | null {
  if (isNumber(d.fit?.flops_rel)) return d.fit.flops_rel;
  const all = (d.inspect?.members ?? []).map((m: Doc) => (isNumber(m.flops) ? m.flops : NaN));
  const sum = all.reduce((a: number, b: number) => a + b, 0);
  return sum > 0 && isNumber(d.show?.flops) ? d.show.flops / sum : null;
}

function pValues(tests: Doc[] | undefined, method: string): Record<string, number> | undefined {
  const found: Record<string, number> = {};
  for (const test of tests ?? [])
    if (test.b === method && isNumber(test.p_adjusted))
      found[test.metric === "squared_error" ? "rmse" : test.metric] = test.p_adjusted;
  return Object.keys(found).length ? found : undefined;
}

function rowOf(row: Doc, mine: boolean, tests?: Doc[]): Row {
  const about = [row.definition, row.detail].filter((part) => typeof part === "string" && part).join("; ");
  const label = name(row.method) + (row.method === "best-single" && row.detail ? `: ${name(row.detail)}` : "");
  return {
    label, method: row.method, about: name(about), mine, scores: row,
    difference: row.difference, p: pValues(tests, row.method),
    models: row.models ?? null, cost: row.flops_rel ?? null,
  };
}

const unitOf: Record<string, string> = { segmentation: "image", detection: "image" };

export function boardOf(d: Documents): Board | null {
  const task = taskOf(d);
  const doc = d.compare ?? d.evaluate ?? d.fit;
  if (!doc) return null;
  const stack = stackName(d);
  let rows: Row[];
  let source: Board["source"] = "fit";
  if (d.compare) {
    source = "compare";
    rows = (doc.rows ?? []).map((row: Doc) => rowOf(row, row.method === doc.reference, doc.tests));
  } else if (d.evaluate) {
    source = "evaluate";
    const mine = { ...doc, method: stack, definition: "this model", flops_rel: costOf(d), difference: undefined };
    rows = [rowOf(mine, true), ...(doc.baselines ?? []).map((row: Doc) => rowOf(row, false, doc.tests))];
  } else {
    const mine = { ...doc.oof, method: stack, models: doc.models_kept, flops_rel: costOf(d) };
    const rules = (doc.comparison ?? []).map((c: Doc) => ({ ...c, detail: c.member, difference: { [c.loss]: c.difference } }));
    const tests = rules.map((c: Doc) => ({ b: c.method, metric: c.loss, p_adjusted: c.p_adjusted }));
    const members = (doc.members ?? []).map((m: Doc) => ({ ...m, method: m.name, models: 1, flops_rel: null }));
    if (rules.length) source = "nested";
    rows = [rowOf(mine, true), ...(rules.length ? rules : members).map((row: Doc) => rowOf(row, false, tests))];
  }
  const mine = rows.find((row) => row.mine);
  if (!mine) return null;
  const scores = scoresOf(task, doc.metric).filter((score) => isNumber(mine.scores[score.key]));
  if (!scores.length) return null;
  const first = scores[0];
  rows = rows.filter((row) => isNumber(row.scores[first.key]));
  const others = rows.filter((row) => !row.mine);
  const sorted = [...others].sort((a, b) => (a.scores[first.key] - b.scores[first.key]) * (first.up ? -1 : 1));
  const rival = source === "fit" ? sorted[0] : others.find((row) => row.method === "best-single");
  const samples = doc.cases ?? doc.images ?? doc.samples;
  return { source, task, scores, rows, mine, rival: rival ?? null, samples, unit: unitOf[task] ?? "row",
    split: name(doc.split ?? "oof") };
}

// Resamples of fewer rows say little about others.
const FEW = 10;

// What the stack is beside a row, by the test where there is one, else by the interval of the difference.
export function verdict(board: Board, row: Row, score = board.scores[0]): Verdict {
  const difference = row.difference?.[score.key] ?? row.scores[score.key] - board.mine.scores[score.key];
  const p = row.p?.[score.key];
  const ci = row.difference?.[score.key + "_ci"];
  if (!isNumber(p) && !(Array.isArray(ci) && isNumber(ci[0]))) return "untested";
  const clear = isNumber(p) ? p < 0.05 : (board.samples ?? FEW) >= FEW && (ci[0] > 0 || ci[1] < 0);
  return !clear || difference === 0 ? "unclear" : difference > 0 !== score.up ? "better" : "worse";
}

export interface Member {
  name: string;
  family: string | null;
  kept: boolean;
  weight: number | null;
  scores: Doc;
  flops: number | null;
  why: string; // it left
}

function reason(drop: Doc | undefined): string {
  if (!drop) return "left out";
  const near = drop.to ? `; most like ${name(drop.to)}` + (isNumber(drop.cka) ? ` (${drop.cka.toFixed(2)})` : "") : "";
  if (drop.because === "redundant") return `says what ${name(drop.to)} says` + near.replace(/^.* \(/, " (");
  if (drop.because === "selection") return "not needed" + near;
  if (drop.because === "cap") return "left out by a limit" + near;
  return name(drop.text ?? drop.because);
}

export function membersOf(d: Documents): Member[] {
  const weights = new Map<string, number>((d.show?.members ?? []).map((m: Doc) => [m.name, m.weight]));
  const kept = new Set<string>(d.fit?.kept ?? (d.show?.members ?? []).map((m: Doc) => m.name));
  const drops = new Map<string, Doc>((d.fit?.dropped ?? []).map((m: Doc) => [m.name, m]));
  const all: Doc[] = d.fit?.members ?? d.inspect?.members ?? d.show?.members ?? [];
  const families = new Map<string, string>((d.inspect?.members ?? []).map((m: Doc) => [m.name, m.family]));
  return all.map((m) => ({
    name: m.name, family: m.family ?? families.get(m.name) ?? null, kept: !d.show && !d.fit ? true : kept.has(m.name),
    weight: d.fit?.weights?.[m.name] ?? weights.get(m.name) ?? null, scores: m, flops: m.flops ?? null,
    why: kept.has(m.name) || (!d.fit && !d.show) ? "" : d.fit ? reason(drops.get(m.name)) : "left out",
  }));
}

// The score that members have, of those of the task first.
export function memberScore(d: Documents): Score | null {
  const list: Doc[] = d.fit?.members ?? d.inspect?.members ?? [];
  const all = [...scoresOf(taskOf(d), d.fit?.metric), ...SCORES.classification];
  return all.find((score) => list.length && list.every((m) => isNumber(m[score.key]))) ?? null;
}

export interface Similarity {
  names: string[];
  at: (i: number, j: number) => number | null;
  closest: [number, number, number] | null;
  limit: number;
}

export function similarityOf(d: Documents): Similarity | null {
  const packed: (number | null)[] = d.inspect?.cka_packed;
  const names: string[] = d.inspect?.models ?? [];
  const n = names.length;
  if (!packed || n < 2) return null;
  const at = (i: number, j: number): number | null => {
    if (i === j) return 1;
    if (i > j) [i, j] = [j, i];
    const value = packed[(i * (2 * n - i - 1)) / 2 + j - i - 1];
    return value === null || value === undefined ? null : value / 1e4;
  };
  let closest: Similarity["closest"] = null;
  for (let i = 0; i < n; i++)
    for (let j = i + 1; j < n; j++) {
      const value = at(i, j);
      if (value !== null && (!closest || value > closest[2])) closest = [i, j, value];
    }
  return { names, at, closest, limit: Number(d.show?.settings?.["cka.threshold"]) || d.inspect!.cluster_threshold };
}

// An order in which what is alike stands together: average linkage by nearest neighbour chains.
export function linkage(n: number, at: Similarity["at"]): number[] {
  const distance = Array.from({ length: n }, (_, i) => Float64Array.from({ length: n }, (_, j) => 1 - (at(i, j) ?? 0)));
  const groups = Array.from({ length: n }, (_, i) => [i]);
  const left = new Set(groups.keys());
  const chain: number[] = [];
  while (left.size > 1) {
    if (!chain.length) chain.push(left.values().next().value!);
    const last = chain[chain.length - 1];
    const before = chain[chain.length - 2];
    let near = -1;
    for (const other of left)
      if (other !== last && (near < 0 || distance[last][other] < distance[last][near] ||
          (distance[last][other] === distance[last][near] && other === before))) near = other;
    if (near !== before) {
      chain.push(near);
      continue;
    }
    chain.length -= 2;
    const [a, b] = [groups[last].length, groups[near].length];
    for (const other of left)
      distance[last][other] = distance[other][last] = (a * distance[last][other] + b * distance[near][other]) / (a + b);
    groups[last] = groups[near].concat(groups[last]);
    left.delete(near);
  }
  return groups[left.values().next().value!];
}

// A method at one value of a sweep: of several draws or seeds the mean, with its standard deviation as interval.
export interface Step {
  method: string;
  value: string;
  x: number; // the value, or its place where one is no number
  scores: Doc; // NAME and NAME_ci
  models: number | null;
  cost: number | null;
}
export interface Sweep {
  key: string;
  scores: Score[];
  values: string[];
  numbers: boolean; // x is the value
  methods: string[];
  steps: Step[];
  spread: string; // what an interval is
}

export function sweepOf(d: Documents): Sweep | null {
  const rows: Doc[] = d.sweep?.rows ?? [];
  const seeds = d.sweep?.key === "seed";
  const summary: Doc[] = rows.length && !seeds ? (d.sweep!.summary ?? []) : [];
  const values = [...new Set(rows.map((row) => row.value as string))];
  const gaps = values.slice(1).map((value, i) => Number(value) - Number(values[i]));
  const numbers = gaps.every((gap) => gap > 0 && gap < 10 * Math.min(...gaps)); // on a scale; others have places
  const scores = scoresOf(taskOf(d), d.sweep?.metric).filter((score) => rows.length && rows.every((row) => isNumber(row[score.key])) &&
    summary.every((row) => isNumber(row[score.key + "_mean"])));
  if (!scores.length) return null;
  const steps = (summary.length ? summary : rows).map((row): Step => {
    const means: Doc = summary.length ? {} : row;
    if (summary.length)
      for (const { key } of scores) {
        const [mean, sd] = [row[key + "_mean"], row[key + "_sd"]];
        means[key] = mean;
        if (isNumber(sd)) means[key + "_ci"] = [mean - sd, mean + sd];
      }
    const same = rows.filter((one) => one.method === row.method && one.value === row.value && isNumber(one.flops_rel));
    return { method: row.method, value: row.value, x: numbers ? Number(row.value) : values.indexOf(row.value), scores: means,
      models: row.models_mean ?? row.models ?? null, cost: same.length ? same.reduce((sum, one) => sum + one.flops_rel, 0) / same.length : null };
  }).filter((step) => scores.every((score) => isNumber(step.scores[score.key])));
  return steps.length ? { key: name(d.sweep!.key), scores, values, numbers, methods: [...new Set(steps.map((step) => step.method))], steps,
    spread: summary.length ? "standard deviations of the draws" : "95% bootstrap intervals" } : null;
}

// Classes, categories, labels or outputs with their scores.
export interface Part {
  name: string;
  count: number;
  score: number | null;
  more: Doc;
}
export interface Parts {
  one: string; // "class"
  score: Score;
  columns: Score[];
  counts: string; // what `count` counts
  overall: number | null;
  parts: Part[];
}

const share = (key: string, label: string, what: string): Score => ({ key, name: label, up: true, percent: true, what });

export function partsOf(d: Documents): Parts | null {
  const doc = d.evaluate;
  const table = (list: Doc[] | undefined, one: string, counts: string, count: string, score: Score, columns: Score[],
                 overall: unknown): Parts | null =>
    list && list.length > 1 ? { one, score, columns, counts, overall: isNumber(overall) ? overall : null,
      parts: list.map((p, i) => ({ name: name(p.name ?? d.show?.class_names?.[p.class] ?? p.class ?? i), count: p[count] ?? 0,
        score: isNumber(p[score.key]) && p[score.key] >= 0 ? p[score.key] : null, more: p })) } : null;
  if (!doc) return null;
  if (doc.task === "segmentation")
    return table(doc.per_class, "class", "Pixels", "pixels", share("iou", "IoU", "intersection over union"),
      [share("accuracy", "Accuracy", "share of the class's pixels that are right"), share("boundary_iou", "Boundary IoU", "IoU of the bands along boundaries")], doc.miou);
  if (doc.task === "detection")
    return table(doc.categories, "category", "Boxes", "boxes", share("AP", "AP", "average precision"),
      [share("AP50", "AP50", "at IoU 0.50"), share("AR100", "AR100", "average recall")], doc.AP);
  if (doc.task === "multilabel")
    return table(doc.labels, "label", "Positives", "positives", { key: "auc", name: "AUC", up: true, what: "area under the ROC curve" },
      [{ key: "ap", name: "AP", up: true, what: "average precision" }, { key: "f1", name: "F1", up: true, what: "F1" }, SCORES.multilabel[0]], doc.macro_auc);
  if (doc.task === "regression")
    return table(doc.outputs, "output", "", "", SCORES.regression[2], SCORES.regression.filter((s) => s.key !== "r2"), doc.r2);
  return table(doc.per_class, "class", "Rows", "samples", share("top1", "Right", "share of the class's rows that are right"),
    [share("precision", "Precision", "share of the predictions of the class that are right"), SCORES.classification[0]], doc.top1);
}

// Conditions, splits, domains and groups of rows, each a list of its own.
export function slicesOf(d: Documents): Parts[] {
  const doc = d.evaluate ?? {};
  const [first, ...more] = scoresOf(taskOf(d), doc.metric);
  const score = taskOf(d) === "classification" ? share("top1", "Right", "share of the rows that are right") : first;
  const columns = [first, ...more].filter((one) => one.key !== score.key);
  if (isNumber(doc.ranges?.[0]?.coverage)) columns.unshift({ key: "coverage", name: `${Math.round(100 * doc.ranges[0].level)}% intervals hold`, up: true, percent: true, what: "share of the values within their intervals" });
  if (doc.ranges) columns.unshift({ key: "bias", name: "Bias", up: false, digits: -1, what: "mean of prediction minus target" });
  const lists: [string, Doc[] | undefined, (one: Doc) => string][] = [
    ["range of predictions", doc.ranges, (one) => `${short(one.low)} to ${short(one.high)}`],
    ["condition", doc.conditions, (one) => [one.kind ?? one.shift, one.severity].filter((part) => part !== null && part !== undefined).join(" ")],
    ["split", doc.splits, (one) => one.split], ["domain", doc.domains, (one) => one.domain], ["group", doc.group_scores, (one) => String(one.group)]];
  return lists.filter(([, list]) => Array.isArray(list) && list.length > 1 && isNumber(list[0][score.key])).map(([one, list, label]) => ({
    one, score, columns, counts: "Rows", overall: isNumber(doc[score.key]) ? doc[score.key] : null,
    parts: list!.map((part) => ({ name: name(label(part)), count: part.samples ?? doc.samples ?? 0, score: isNumber(part[score.key]) ? part[score.key] : null, more: part })) }));
}

// Pairs of label and prediction, the most frequent first; null where none are known.
export function confusionsOf(d: Documents): { label: number; predicted: number; count: number }[] | null {
  const doc = d.evaluate;
  if (doc?.confused) return doc.confused.map(([label, predicted, count]: number[]) => ({ label, predicted, count }));
  if (!doc?.confusion) return null;
  const pairs: { label: number; predicted: number; count: number }[] = [];
  doc.confusion.forEach((line: number[], label: number) =>
    line.forEach((count, predicted) => label !== predicted && count && pairs.push({ label, predicted, count })));
  return pairs.sort((a, b) => b.count - a.count);
}
