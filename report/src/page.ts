// The page: sections from the documents, each a question, its answer, a paragraph and a chart.
import { answers, checksOf, commands, FAR, halfSentence, memberSentence, overconfidence, pathSentence, rangeSentence, ruleSentence, value, verdictOf, type Answer } from "./answers";
import { heat, interval, plot, repaint, table, type Column, type Point } from "./charts";
import { boardOf, confusionsOf, linkage, memberScore, membersOf, partsOf, similarityOf, slicesOf, stackName, sweepOf, taskOf, verdict,
  type Board, type Doc, type Documents, type Member, type Part, type Parts, type Row, type Score, type Step, type Sweep } from "./data";
import { h, s } from "./dom";
import { capital, counted, isNumber, name, number, percent, probability, short, units, whole, wilson } from "./text";

const d: Documents = JSON.parse(document.getElementById("data")!.textContent!);
const board = boardOf(d);
type Content = (Node | string | null)[];

const figure = (title: string, note: string, ...chart: Node[]) =>
  h("figure", {}, h("figcaption", {}, h("strong", {}, title), note && h("span", {}, note)), ...chart);
const paragraph = (text: string) => (text.trim() ? h("p", {}, text) : "");
const details = (summary: string, ...content: (Node | string)[]) => h("details", {}, h("summary", {}, summary), ...content);
const pairs = (list: [string, string][], kind?: string) => h("dl", { class: kind }, ...list.flatMap(([key, text]) => [h("dt", {}, key), h("dd", {}, text)]));

// ---- better ----

function methods(of: Board): HTMLElement {
  const place = h("div");
  const fill = (score: Score) => {
    const ci = (row: Row): [number, number] | null => (isNumber(row.scores[score.key + "_ci"]?.[0]) ? row.scores[score.key + "_ci"] : null);
    const rows = of.rows.filter((row) => isNumber(row.scores[score.key]));
    const ends = rows.flatMap((row) => ci(row) ?? [row.scores[score.key]]);
    const [low, high] = [Math.min(...ends), Math.max(...ends)];
    const columns: Column<Row>[] = [
      { name: of.source === "fit" ? "Stack or model" : "Method", text: true, value: (row) => row.label, cell: (row) => h("span", { title: row.about }, ...row.label.split("+").flatMap((part, i) => (i ? [h("wbr"), "+" + part] : [part]))) },
      { name: capital(score.name), title: score.what, value: (row) => row.scores[score.key], cell: (row) => h("b", {}, value(score, row.scores[score.key])) },
    ];
    if (rows.some(ci))
      columns.push({ name: "95% interval", text: true, value: (row) => row.scores[score.key],
        cell: (row) => interval(row.scores[score.key], ci(row), low, high, of.mine.scores[score.key],
          ci(row) ? `${value(score, ci(row)![0])} to ${value(score, ci(row)![1])}` : value(score, row.scores[score.key]), row.mine) });
    if (rows.some((row) => isNumber(row.p?.[score.key])))
      columns.push({ name: "p", title: "adjusted p-value of a paired test against the stack", value: (row) => row.p?.[score.key] ?? null, cell: (row) => probability(row.p?.[score.key]) });
    if (rows.some((row) => row.difference?.[score.key + "_ci"]))
      columns.push({ name: "Difference", narrow: true, title: "from the stack, with the 95% interval of the paired difference", value: (row) => row.difference?.[score.key] ?? null,
        cell: (row) => difference(row, score) });
    for (const other of of.scores.filter((one) => one !== score).slice(0, rows.some((row) => row.p && row.difference) ? 2 : 3))
      columns.push({ name: capital(other.name), title: other.what, narrow: true, value: (row) => row.scores[other.key] ?? null, cell: (row) => value(other, row.scores[other.key]) });
    if (of.source !== "fit") {
      columns.push({ name: "Models", narrow: true, value: (row) => row.models, cell: (row) => (row.models === null ? "–" : whole(row.models)) });
      if (rows.some((row) => row.cost !== null))
        columns.push({ name: "Cost", title: "FLOPs relative to running all models", narrow: true, value: (row) => row.cost, cell: (row) => percent(row.cost, row.cost !== null && row.cost < 0.1 ? 1 : 0) });
    }
    place.replaceChildren(table("Methods on the same rows", columns, rows, [1, score.up], (row) => (row.mine ? "mine" : "")));
  };
  fill(of.scores[0]);
  return h("div", {}, h("fieldset", { class: "pick" }, h("legend", { class: "sr" }, "Score"),
    ...of.scores.map((score, i) => h("label", {}, h("input", { type: "radio", name: "score", checked: i === 0, change: () => fill(score) }), h("span", {}, capital(score.name))))), place);
}

function difference(row: Row, score: Score): Node | string {
  const [at, ci] = [row.difference?.[score.key], row.difference?.[score.key + "_ci"]];
  if (!isNumber(at)) return "–";
  const text = (x: number) => (x > 0 ? "+" : "") + (score.percent ? number(100 * x, 1) : score.digits === -1 ? short(x) : number(x));
  return h("span", {}, text(at), ci ? h("small", { class: "ci" }, ` ${text(ci[0])} to ${text(ci[1])}`) : "");
}

function sweep(of: Sweep): Content {
  const score = of.scores[0];
  const [y, ci] = [(step: Step) => step.scores[score.key] as number, (step: Step) => step.scores[score.key + "_ci"] as [number, number] | undefined];
  const points = of.steps.map((step): Point => ({ x: step.x, y: y(step), low: ci(step)?.[0], high: ci(step)?.[1], group: step.method,
    label: of.methods.length > 1 && of.steps.filter((one) => one.method === step.method).pop() === step ? name(step.method) : undefined,
    text: `${name(step.method)}, ${of.key} ${name(step.value)}: ${score.name} ${value(score, y(step))}${ci(step) ? ` (${value(score, ci(step)![0])} to ${value(score, ci(step)![1])})` : ""}` }));
  const place = (x: number) => (!of.numbers ? name(of.values[x] ?? "") : Math.abs(x) >= 1e4 ? units(x) : String(Number(x.toPrecision(6))));
  const columns: Column<Step>[] = [
    { name: capital(of.key), text: true, value: (step) => step.x, cell: (step) => name(step.value) },
    ...(of.methods.length > 1 ? [{ name: "Method", text: true, value: (step: Step) => step.method, cell: (step: Step) => name(step.method) }] : []),
    ...of.scores.slice(0, 4).map((one, i): Column<Step> => ({ name: capital(one.name), title: one.what, narrow: i > 1, value: (step) => step.scores[one.key],
      cell: (step) => (i ? value(one, step.scores[one.key]) : h("b", {}, value(one, step.scores[one.key]))) })),
    { name: "Models", value: (step) => step.models, cell: (step) => (isNumber(step.models) ? number(step.models, Number.isInteger(step.models) ? 0 : 1) : "–") },
    ...(of.steps.some((step) => step.cost !== null) ? [{ name: "Cost", title: "FLOPs relative to running all models", value: (step: Step) => step.cost, cell: (step: Step) => percent(step.cost) }] : []),
  ];
  return [paragraph(`Every value was scored on the same ${counted(d.sweep!.samples ?? d.sweep!.images ?? 0, "row")} of split ${name(d.sweep!.split)}${d.sweep!.scored === "nested" ? ", each row by fits that did not see it" : ""}.` +
      (points.some((point) => point.low !== undefined) ? ` Lines are ${of.spread}; the same rows were used throughout, so that differences are surer than intervals that overlap suggest.` : "")),
    of.values.length > 1 ? figure(`${capital(score.name)} over ${of.key}`, `${score.up ? "Higher" : "Lower"} is better.`,
      plot({ title: `${score.name} over ${of.key}`, points, x: { label: of.key, format: place }, y: { label: score.name, format: (v) => value(score, v) }, line: true })) : null,
    table(`Scores over ${of.key}`, columns, of.steps, [0, false])];
}

function better(): Content {
  const swept = sweepOf(d);
  if (swept) return sweep(swept);
  if (!board) return [];
  const rows = counted(board.samples, board.unit) + (d.evaluate?.conditions ? ` in each of ${whole(d.evaluate.conditions.length)} conditions` : "");
  const how = board.source === "fit"
    ? `The stack's scores are nested: each of the ${rows} was predicted by fits that did not see it. A test needs other rows: run “corestack report” on a split that the fit did not see.`
    : board.source === "nested"
    ? `Each of the ${rows} was predicted by fits that did not see it. “Clearly” means p\u00a0<\u00a00.05 in a paired t-test, adjusted for the number of rules.`
    : `Every method was scored on the same ${rows} of split ${board.split}${d.evaluate?.seen_in_fitting ? "" : ", which its fit did not see"}. ` +
      (d.compare?.repetitions ? `Scores are means over ${d.compare.repetitions.length} repetitions. ` : "") +
      (board.rows.some((row) => row.p) ? `Lines are 95% bootstrap intervals, the dashed line is the stack. “Clearly” means p\u00a0<\u00a00.05 in a paired test (${name((d.compare ?? d.evaluate)?.adjustment ?? "")}).`
        : board.rows.some((row) => verdict(board, row) !== "untested") ? "Lines are 95% bootstrap intervals, the dashed line is the stack. “Clearly” means that the 95% interval of the paired difference leaves out 0." : "");
  return [paragraph(`${how} ${ruleSentence(d)}`), methods(board)];
}

// ---- which ----

function path(): Node | null {
  const steps: Doc[] = d.fit?.path ?? [];
  if (steps.length < 2) return null;
  const points = steps.map((step): Point => ({ x: step.size, y: step.loss, low: step.loss - 1.96 * step.excess_se, high: step.loss + 1.96 * step.excess_se,
    kind: step.chosen ? "mine" : undefined, label: step.chosen ? `${step.size} chosen` : undefined,
    text: `${counted(step.size, "model")}: held-out loss ${number(step.loss, 4)}, ${number(step.excess, 4)} above the lowest (standard error ${number(step.excess_se, 4)})${step.allowed === false ? "; beyond the limits on cost" : ""}` }));
  return figure("Held-out loss by number of models", "Band: ±1.96 standard errors of the difference from the best size.",
    plot({ title: "Held-out loss by number of models", points, x: { label: "models", format: (x) => (Number.isInteger(x) ? String(x) : "") }, y: { label: "held-out loss" }, line: true, band: true }));
}

function bar(weight: number, low: number, high: number): SVGElement {
  const at = (x: number) => (100 * (x - low)) / (high - low || 1);
  return s("svg", { class: "bar", "aria-hidden": "true" }, s("line", { class: "zero", x1: at(0) + "%", x2: at(0) + "%", y1: 0, y2: "100%" }),
    s("rect", { class: weight < 0 ? "negative" : "", x: at(Math.min(0, weight)) + "%", width: Math.max(0.4, at(Math.abs(weight)) - at(0)) + "%", y: "22%", height: "56%", "data-value": weight }));
}

function members(): HTMLElement | null {
  const list = membersOf(d);
  const score = memberScore(d);
  if (!list.length) return null;
  const lost = list.flatMap((m) => (isNumber(m.scores.loss_without) ? [m.scores.loss_without] : []));
  const weights = lost.length ? lost : list.flatMap((m) => (isNumber(m.weight) ? [m.weight] : []));
  const [low, high] = [Math.min(0, ...weights), Math.max(0, ...weights)];
  const columns: Column<Member>[] = [{ name: "Model", text: true, value: (m) => m.name,
    cell: (m) => h("span", {}, name(m.name), m.why ? h("small", { class: "why" }, m.why) : "") }];
  if (lost.length)
    columns.push({ name: "Loss without it", title: "rise of the nested loss, and its standard error", text: true, value: (m) => m.scores.loss_without ?? null,
      cell: (m) => (isNumber(m.scores.loss_without) ? h("span", { class: "weight", title: `± ${number(m.scores.loss_without_se, 4)}` },
        h("span", { class: "n" }, number(m.scores.loss_without, 4)), bar(m.scores.loss_without, low, high)) : "–") });
  else if (weights.length)
    columns.push({ name: "Weight", title: "in the first pool of the blend", text: true, value: (m) => m.weight,
      cell: (m) => (isNumber(m.weight) ? h("span", { class: "weight" }, h("span", { class: "n" }, number(m.weight, 2)), bar(m.weight, low, high)) : "–") });
  if (score) columns.push({ name: `${capital(score.name)} alone`, title: "out of fold", value: (m) => m.scores[score.key], cell: (m) => value(score, m.scores[score.key]) });
  if (list.some((m) => m.family)) columns.push({ name: "Family", text: true, narrow: true, value: (m) => m.family ?? "", cell: (m) => name(m.family ?? "–") });
  if (list.some((m) => isNumber(m.flops))) columns.push({ name: "FLOPs", narrow: true, value: (m) => m.flops, cell: (m) => units(m.flops) });
  const start: [number, boolean] = weights.length ? [1, true] : score ? [1, score.up] : [0, false];
  const made = table("Models of the pool", columns, list, start, (m) => (m.kept ? "" : "out"));
  return list.length > 40 ? details(`All ${list.length} models`, made) : made;
}

function similarity(): Node | null {
  const found = similarityOf(d);
  if (!found) return null;
  const n = found.names.length;
  const order = linkage(n, found.at);
  const kept = new Set(membersOf(d).filter((m) => m.kept).map((m) => m.name));
  const label = (i: number) => name(found.names[i]) + (kept.has(found.names[i]) ? "" : " (left out)");
  const values = order.flatMap((_, i) => order.map((__, j) => found.at(i, j) ?? 1));
  const near = found.closest;
  const note = near ? `Closest: ${name(found.names[near[0]])} and ${name(found.names[near[1]])}, ${number(near[2])}. From ${number(found.limit)} on, models count as saying the same. ` : "";
  return figure("How alike the models are (CKA)", `${note}Models that are alike are neighbours.`,
    heat({ title: `Similarity of ${n} models`, names: order.map(label), value: (i, j) => found.at(order[i], order[j]),
      low: Math.floor(10 * values.reduce((a, b) => Math.min(a, b), 1)) / 10, high: 1,
      text: (i, j) => (i === j ? label(order[i]) : `${label(order[i])} and ${label(order[j])}: CKA ${number(found.at(order[i], order[j]), 4)}`) }));
}

function which(): Content {
  const pool = d.fit ?? d.show;
  const note = pool && membersOf(d).some((m) => (m.weight ?? 0) < 0)
    ? h("p", { class: "note" }, "A negative weight corrects what other models share; it does not mean that the model is bad.") : null;
  return [paragraph(`${memberSentence(d)} ${pathSentence(d)}`), path(), members(), note, similarity()];
}

// ---- trust ----

function reliability(title: string, bins: Doc[] | undefined): Node | null {
  const filled = (bins ?? []).filter((bin) => bin.count);
  const pixels = taskOf(d) === "segmentation";
  if (!filled.length) return null;
  const points = filled.map((bin): Point => {
    const [low, high] = wilson(bin.accuracy, bin.count);
    if (pixels)
      return { x: bin.confidence, y: bin.accuracy, kind: Math.abs(bin.confidence - bin.accuracy) > FAR && (bin.confidence < low || bin.confidence > high) ? "off" : undefined,
        text: `Confidence ${percent(bin.lower, 0)} to ${percent(bin.upper, 0)}: ${counted(bin.count, "pixel")}, mean confidence ${percent(bin.confidence)}, right ${percent(bin.accuracy)}` };
    return { x: bin.confidence, y: bin.accuracy, low, high, kind: low <= bin.confidence && bin.confidence <= high ? undefined : "off",
      text: `Confidence ${percent(bin.lower, 0)} to ${percent(bin.upper, 0)}: ${counted(bin.count, "row")}, mean confidence ${percent(bin.confidence)}, right ${percent(bin.accuracy)} (95% interval ${percent(low, 0)} to ${percent(high, 0)})` };
  });
  const off = points.filter((point) => point.kind === "off").length;
  const shares = (x: number) => percent(x, 0);
  return figure(title, pixels ? `${off} of ${counted(points.length, "bin")} (orange) are clearly more than ${percent(FAR, 0)} off the diagonal.` : off ? `In ${off} of ${counted(points.length, "bin")} (orange) the interval misses the diagonal.` : `In all ${counted(points.length, "bin")} the interval covers the diagonal.`,
    plot({ title: `Reliability of ${title.toLowerCase()}`, points, x: { label: "confidence", domain: [0, 1], format: shares }, y: { label: "share that is right", domain: [0, 1], format: shares },
      diagonal: true, square: true, bars: filled.map((bin) => ({ from: bin.lower, to: bin.upper, value: bin.count })) }));
}

function trust(): Content {
  const icons = { ok: ["✓", "passed"], note: ["!", "note"], bad: ["✕", "failed"] };
  const list = h("ul", { class: "checks" }, ...checksOf(d).map((check) => h("li", { class: check.state },
    h("span", { class: "icon", role: "img", "aria-label": icons[check.state][1] }, icons[check.state][0]), h("div", {}, h("strong", {}, check.what), h("span", {}, check.detail)))));
  const bins: Doc[] | undefined = d.evaluate?.reliability;
  const over = overconfidence(bins);
  const text = over === null ? null : paragraph(`The stack is on average ${over > 0 ? "over" : "under"}confident by ${percent(Math.abs(over))} (ECE ${number(d.evaluate!.ece)}). ${rangeSentence(d, bins)} ` +
    `A point on the diagonal means that of the ${taskOf(d) === "segmentation" ? "pixels" : "rows"} with 90% confidence, 90% are right. Grey bars show how many there are, on a square-root scale.`);
  const charts = [reliability("The stack", bins), reliability("The best single model", d.evaluate?.baselines?.[0]?.reliability)].filter((chart) => chart !== null);
  return [list, text, charts.length ? h("div", { class: "pair even" }, ...charts) : null];
}

// ---- cost ----

function cost(): Content {
  const front: Doc[] = (d.fit?.front?.points ?? []).filter((point: Doc) => isNumber(point.flops) && point.flops > 0);
  const [flops, latency, bytes] = [d.show?.flops ?? d.fit?.budget?.flops?.used, d.show?.latency_ms, d.show?.bytes];
  const text = [isNumber(flops) && `The members take ${units(flops)}FLOPs for one prediction`, isNumber(latency) && `${short(latency)} ms if they run one after another`,
    isNumber(bytes) && `the model file has ${whole(bytes / 1024)} KiB`].filter(Boolean).join(", ");
  const content: Content = [paragraph(`${text && capital(text) + "."} ${halfSentence(d)}`)];
  const score = board?.scores[0];
  const swept = sweepOf(d);
  if (swept) {
    const one = swept.scores[0];
    const points = swept.steps.filter((step) => step.cost).map((step): Point => ({ x: step.cost!, y: step.scores[one.key], group: step.method,
      label: swept.methods.length > 1 && swept.steps.filter((other) => other.method === step.method).pop() === step ? name(step.method) : undefined,
      text: `${name(step.method)}, ${swept.key} ${name(step.value)}: ${one.name} ${value(one, step.scores[one.key])} at ${percent(step.cost)} of the cost of all models` }));
    content.push(figure(`${capital(one.name)} against cost`, `${one.up ? "Higher" : "Lower"} and further left is better.`,
      plot({ title: `${one.name} against cost`, points, x: { label: "cost relative to all models", log: true, format: (x) => percent(x, x < 0.01 ? 1 : 0) }, y: { label: one.name, format: (v) => value(one, v) }, line: true })));
  } else if (front.length > 1) {
    const points = front.map((p): Point => ({ x: p.flops, y: p.loss, kind: p.kept ? "mine" : undefined, label: p.kept ? "this stack" : undefined,
      text: `${counted(p.size, "model")}: held-out loss ${number(p.loss, 4)}, ${units(p.flops)}FLOPs${p.kept ? " (this stack)" : ""}` }));
    content.push(figure("Held-out loss against cost", "Sets of models that no cheaper set beats. Lower and further left is better.",
      plot({ title: "Held-out loss against FLOPs", points, x: { label: "FLOPs of one prediction", log: true, format: units }, y: { label: "held-out loss" }, line: true })));
  } else if (board && score && isNumber(board.mine.cost) && board.rows.filter((row) => isNumber(row.cost) && row.cost > 0).length > 1) {
    const points = board.rows.filter((row) => isNumber(row.cost) && row.cost > 0).map((row): Point => ({ x: row.cost!, y: row.scores[score.key], kind: row.mine ? "mine" : undefined,
      label: row.mine ? "this stack" : undefined, text: `${row.label}: ${score.name} ${value(score, row.scores[score.key])}, ${percent(row.cost)} of the cost of all models` }));
    content.push(figure(`${capital(score.name)} against cost`, `${score.up ? "Higher" : "Lower"} and further left is better.`,
      plot({ title: `${score.name} against cost`, points, x: { label: "cost relative to all models", log: true, format: (x) => percent(x, x < 0.01 ? 1 : 0) }, y: { label: score.name, format: (x) => value(score, x) } })));
  }
  return [...content, ...cascade()];
}

// Rows with their answer by what they have cost, and the members in the order in which they run.
function cascade(): Content {
  const found: Doc | undefined = d.fit?.cascade ?? d.show?.cascade;
  const stages: Doc[] = found?.stages ?? [];
  if (!found?.stops || stages.length < 2) return [];
  const unit = found.cost_of === "flops" ? "FLOPs" : found.cost_of === "latency_ms" ? "time" : "members";
  let sum = 0;
  const points = stages.map((stage): Point => {
    sum += stage.stopped;
    return { x: stage.cost, y: sum, kind: isNumber(stage.threshold) ? undefined : "other",
      text: `After ${name(stage.member)} (${counted(stage.members, "model")}, ${percent(stage.cost)} of the ${unit}) ${percent(sum)} of the rows have their answer${isNumber(stage.threshold) ? `, those above a probability of ${number(stage.threshold, 4)}` : ""}` };
  });
  const risk = found.risk === "disagreement" ? "are decided otherwise than by the whole stack" : `have the risk “${name(found.risk)}”`;
  return [figure("The cascade: rows that have their answer", "The models run one after another, and a row stops where its probability is high enough.",
    plot({ title: "Rows with their answer by cost", points, x: { label: `${unit} relative to the whole stack`, domain: [0, 1], format: (x) => percent(x, 0) }, y: { label: "rows with their answer", domain: [0, 1], format: (x) => percent(x, 0) }, line: true })),
    paragraph(`A row costs ${percent(found.cost, 0)} of the stack's ${unit} on average. Of ${counted(found.tested, "row")} that the thresholds were not chosen on, ${whole(found.failed)} ${risk}` +
      (isNumber(found.bound) ? `: at most ${percent(found.bound, 2)} of new rows, with ${percent(found.confidence, 0)} confidence` : "") + `. NLL changes by ${number(found.nll_change, 4)}.`),
    details(`The ${stages.length} stages`, table("Stages of the cascade", [
      { name: "Runs next", text: true, value: (stage: Doc) => stage.members, cell: (stage: Doc) => name(stage.member) },
      { name: "Cost so far", value: (stage: Doc) => stage.cost, cell: (stage: Doc) => percent(stage.cost, 2) },
      { name: "Stops above", title: "probability from which a row stops", value: (stage: Doc) => stage.threshold ?? null, cell: (stage: Doc) => (isNumber(stage.threshold) ? number(stage.threshold, 4) : "–") },
      { name: "Rows that stop", value: (stage: Doc) => stage.stopped, cell: (stage: Doc) => percent(stage.stopped) },
    ], stages, [0, false]))];
}

// ---- wrong ----

const className = (c: number): string => name(d.show?.class_names?.[c] ?? c);

function confusion(): Node | null {
  const found = confusionsOf(d);
  const n = d.evaluate?.classes ?? 0;
  if (!found?.length) return null;
  const unit = taskOf(d) === "segmentation" ? "pixel" : "row";
  const top = found.slice(0, 3).map((pair) => `${className(pair.label)} taken for ${className(pair.predicted)} (${counted(pair.count, unit)})`).join(", ");
  if (n > 20)
    return figure("Classes that are confused", "The most frequent pairs.", table("Confused classes", [
      { name: "Label", text: true, value: (pair) => className(pair.label), cell: (pair) => className(pair.label) },
      { name: "Prediction", text: true, value: (pair) => className(pair.predicted), cell: (pair) => className(pair.predicted) },
      { name: capital(unit) + "s", value: (pair) => pair.count, cell: (pair) => whole(pair.count) },
    ], found.slice(0, 15), [2, true]));
  const counts = new Map(found.map((pair) => [pair.label * n + pair.predicted, pair.count]));
  const at = (i: number, j: number) => counts.get(i * n + j) ?? 0;
  return figure("Label (rows) and prediction (columns)", `Most frequent: ${top}. Right answers are left blank.`,
    heat({ title: `Confusion of ${n} classes`, names: Array.from({ length: n }, (_, c) => className(c)), value: (i, j) => (i === j ? null : at(i, j)), low: 0, high: found[0].count,
      cell: unit === "row" ? (i, j) => (i === j || !at(i, j) ? "" : String(at(i, j))) : undefined, note: unit + "s",
      text: (i, j) => (i === j ? `${className(i)} itself` : `${className(i)} taken for ${className(j)}: ${counted(at(i, j), unit)}`) }));
}

function parts(found: Parts | null): HTMLElement | null {
  if (!found) return null;
  const score = found.score;
  const ci = (part: Part): [number, number] | null => (score.key === "top1" && part.count && part.score !== null ? wilson(part.score, part.count) : null);
  const ends = found.parts.flatMap((part) => (part.score === null ? [] : (ci(part) ?? [part.score])));
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const columns: Column<Part>[] = [
    { name: capital(found.one), text: true, value: (part) => part.name, cell: (part) => part.name },
    { name: capital(score.name), title: score.what, value: (part) => part.score, cell: (part) => h("b", {}, value(score, part.score)) },
    { name: score.key === "top1" ? "95% interval" : "On one scale", text: true, value: (part) => part.score,
      cell: (part) => (part.score === null ? "–" : interval(part.score, ci(part), low, high, found.overall, ci(part) ? ci(part)!.map((x) => percent(x)).join(" to ") : value(score, part.score))) },
    ...found.columns.filter((column) => found.parts.some((part) => isNumber(part.more[column.key]))).map((column): Column<Part> => ({ name: capital(column.name), title: column.what, narrow: true,
      value: (part) => part.more[column.key] ?? null, cell: (part) => value(column, part.more[column.key]) })),
  ];
  if (found.counts) columns.push({ name: found.counts, value: (part) => part.count, cell: (part) => whole(part.count) });
  const made = table(`Scores by ${found.one}`, columns, found.parts, [1, !score.up]);
  return found.parts.length > 60 ? details(`All ${found.parts.length} ${found.one.replace(/y$/, "ie").replace(/s$/, "se")}s`, made) : found.one === "class" ? made : figure(`By ${found.one}`, "", made);
}

function worst(): Node | null {
  const rows: Doc[] = d.evaluate?.worst ?? [];
  if (rows.length && isNumber(rows[0].target))
    return details("Rows with the largest errors", table("Rows with the largest errors", [
      { name: "Row", text: true, value: (row) => String(row.id ?? row.row), cell: (row) => name(row.id ?? row.row) },
      { name: "Target", value: (row) => row.target, cell: (row) => short(row.target) },
      { name: "Prediction", value: (row) => row.predicted, cell: (row) => short(row.predicted) },
      { name: "Error", value: (row) => Math.abs(row.predicted - row.target), cell: (row) => short(row.predicted - row.target) },
    ], rows, [3, true]));
  return rows.length ? details("Rows that surprised it most", table("Rows with the highest loss", [
    { name: "Row", text: true, value: (row) => String(row.id ?? row.row), cell: (row) => name(row.id ?? row.row) },
    { name: "Label", text: true, value: (row) => className(row.label), cell: (row) => className(row.label) },
    { name: "Prediction", text: true, value: (row) => className(row.predicted), cell: (row) => className(row.predicted) },
    { name: "Probability", value: (row) => row.probability, cell: (row) => percent(row.probability) },
    { name: "of the label", value: (row) => row.probability_label, cell: (row) => number(row.probability_label, 4) },
  ], rows, [4, false])) : null;
}

function wrong(): Content {
  const [left, right] = [confusion(), parts(partsOf(d))];
  const beside = left && right && taskOf(d) === "classification" && d.evaluate!.classes <= 12;
  return [...(beside ? [h("div", { class: "pair" }, left, right)] : [left, right]), worst(), ...slicesOf(d).map(parts)];
}

// ---- changed ----

// A measure of a member beside that of the fit.
function drift(of: Doc | undefined, shares = true): Node | string {
  if (!of || !isNumber(of.value)) return "–";
  const text = (x: number) => (shares ? percent(x) : number(x));
  const said = of.fit || !shares ? `${text(of.value)} (${text(of.fit)})` : text(of.value);
  return of.flag ? h("b", {}, said + " !") : said;
}

const evidence = (x: number) => (x > 1e6 ? "> 1,000,000" : short(x));

function changed(): Content {
  const found: Doc = d.monitor!;
  const batches: Doc[] = found.batches ?? [];
  const last = batches[batches.length - 1];
  const log = (x: number) => Math.log10(Math.max(x, 1e-3));
  const points = batches.map((batch, i): Point => ({ x: i + 1, y: log(batch.evidence), kind: batch.alarm ? "off" : undefined,
    text: `${name(batch.batch)}: evidence ${evidence(batch.evidence)} after it, at most ${evidence(batch.evidence_alone)} in it alone; ${counted(batch.tested, "row")}` }));
  const columns: Column<Doc>[] = [
    { name: "Batch", text: true, value: (batch) => batch.place, cell: (batch) => name(batch.batch) },
    { name: "Rows", value: (batch) => batch.tested, cell: (batch) => whole(batch.tested) },
    { name: "Evidence", title: "after the batch", value: (batch) => batch.evidence, cell: (batch) => evidence(batch.evidence) },
    { name: "Alone", title: "largest evidence of a test of this batch by itself", narrow: true, value: (batch) => batch.evidence_alone, cell: (batch) => evidence(batch.evidence_alone) },
    { name: "Right, expected", title: "without labels, with its typical error", value: (batch) => batch.expected?.top1 ?? null,
      cell: (batch) => (isNumber(batch.expected?.top1) ? `${percent(batch.expected.top1)} ± ${percent(batch.expected.error)}` : "–") },
  ];
  if (batches.some((batch) => isNumber(batch.observed?.top1)))
    columns.push({ name: "Right, by labels", value: (batch) => batch.observed?.top1 ?? null, cell: (batch) => percent(batch.observed?.top1) });
  const list = table("Batches", columns, batches.map((batch, i) => ({ ...batch, place: i })), [0, false]);
  const members: Doc[] = [...(last?.stack ?? []), ...(last?.members ?? [])];
  const flags = (m: Doc) => ["entropy", "disagreement", "missing", "classes"].filter((key) => m[key]?.flag).length;
  const drifts = members.length ? table("Drift of the models", [
    { name: "Model", text: true, value: (m: Doc) => m.name ?? "", cell: (m: Doc) => h("span", {}, m.name === null ? "the stack" : name(m.name),
      m.classes?.flag && m.largest_change ? h("small", { class: "why" }, `class ${name(m.largest_change.class ?? "others")}: ${percent(m.largest_change.share)} instead of ${percent(m.largest_change.fit)}`) : "") },
    { name: "Flags", value: flags, cell: (m: Doc) => whole(flags(m)) },
    { name: "Entropy (fit)", title: "mean entropy of its probabilities", value: (m: Doc) => m.entropy?.value ?? null, cell: (m: Doc) => drift(m.entropy, false) },
    { name: "Disagreement (fit)", title: "share of rows where it differs from the stack", value: (m: Doc) => m.disagreement?.value ?? null, cell: (m: Doc) => drift(m.disagreement) },
    { name: "Classes moved", title: "half the sum of changes of the shares of predicted classes", narrow: true, value: (m: Doc) => m.classes?.value ?? null, cell: (m: Doc) => drift(m.classes) },
    { name: "Missing (fit)", narrow: true, value: (m: Doc) => m.missing?.value ?? null, cell: (m: Doc) => drift(m.missing) },
  ], members, [1, true], (m) => (m.name === null ? "mine" : "")) : null;
  return [paragraph(`Each row bets against “like the rows of the fit”, without labels. Evidence of ${whole(found.evidence_alarm)} is an alarm; it happens by chance in at most ${percent(found.alpha, 0)} of such tests. ` +
      (isNumber(found.fit?.top1) ? `Of the rows of the fit, ${percent(found.fit.top1)} were right. ` : "") +
      (found.alarm && d.evaluate ? "The scores above are those of the stack alone; “corestack predict” gives the average of all models a part where rows are unlike those of the fit." : "")),
    batches.length > 1 ? figure("Evidence over the batches", "On a logarithmic scale. It falls while rows are like those of the fit. An alarm stays.",
      plot({ title: "Evidence over the batches", points, x: { label: "batch", format: (x) => (Number.isInteger(x) ? String(x) : "") }, y: { label: "evidence", format: (v) => (Number.isInteger(v) ? (v < 0 ? String(10 ** v) : units(10 ** v)) : "") },
        line: true, mark: { y: log(found.evidence_alarm), label: "alarm" } })) : null,
    batches.length > 40 ? details(`All ${batches.length} batches`, list) : batches.length ? list : null,
    drifts ? details(`Drift of each model in batch ${name(last.batch)}: ${counted(last.flags ?? 0, "flag")}`, paragraph("A flag (!) is a value that is unlikely for rows like those of the fit; of such batches 1 in 100 has any. Models that predict a test split are often fitted on more rows than those of the fit, which alone can move their entropy."), drifts) : null];
}

// ---- made ----

function made(): Content {
  const fitted: Doc = d.show?.fitted_on ?? {};
  const changed = Object.entries((d.show?.changed ?? {}) as Doc).map(([key, to]) => `${name(key)}=${name(to?.value ?? to?.model ?? JSON.stringify(to))}`);
  const learners: Doc[] = (d.show?.learners ?? []).filter((learner: Doc) => learner.weight > 0);
  const list: [string, string | null][] = [
    ["Commands", commands(d) || null],
    ["Model", d.show?.model ? `${name(d.show.model)}, ${whole(d.show.bytes)} bytes` : null],
    ["Fitted on", isNumber(fitted.samples) ? `pool with hash ${name(fitted.pool_hash)}: ${counted(fitted.members, "model")}, ${counted(fitted.samples, "sample")} of split ${name(fitted.split)}, ${counted(fitted.folds, "fold")}` : null],
    ["Blend", learners.length ? learners.map((learner) => `${name(learner.name)} ${percent(learner.weight, 0)}`).join(", ") : null],
    ["Changed options", d.show ? changed.join(", ") || "none" : null],
    ["Scored on", board && board.source !== "fit" ? `split ${board.split}, ${counted(board.samples, board.unit)}` : null],
    ["Intervals", isNumber((d.compare ?? d.evaluate)?.resamples) ? `${whole((d.compare ?? d.evaluate)!.resamples)} bootstrap resamples, seed ${(d.compare ?? d.evaluate)!.seed}` : null],
    ["Varied", d.sweep ? `${name(d.sweep.key)} over ${sweepOf(d)?.values.map(name).join(", ")}; methods ${sweepOf(d)?.methods.map(name).join(", ")}` : null],
    ["This page", `corestack ${name(d.corestack)}`],
  ];
  const definitions = Object.entries((d.compare ?? d.evaluate ?? d.fit)?.definitions ?? {}) as [string, string][];
  const scores = board ? board.scores.map((score): [string, string] => [capital(score.name), score.what]) : [];
  const settings = Object.entries(d.show?.settings ?? {}) as [string, string][];
  return [pairs(list.filter((entry): entry is [string, string] => entry[1] !== null)),
    details("Definitions of the scores", pairs([...scores, ...definitions.filter(([key]) => !board?.scores.some((score) => score.key === key)).map(([key, text]): [string, string] => [name(key), name(text)])])),
    settings.length ? details("All settings", pairs(settings.map(([key, text]) => [name(key), name(text || "–")]), "settings")) : null];
}

// ---- the page ----

const SECTIONS: Record<string, () => Content> = { better, which, trust, cost, wrong, changed, made };

function section(answer: Answer): HTMLElement {
  return h("section", { id: answer.id, "aria-labelledby": answer.id + "-h" }, h("p", { class: "question" }, answer.question),
    h("h2", { id: answer.id + "-h" }, answer.headline), ...SECTIONS[answer.id]());
}

const root = document.documentElement;
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
const theme = h("button", { type: "button", class: "theme", click: () => setTheme(isDark() ? "light" : "dark") });

function setTheme(to: string | undefined) {
  if (to) root.dataset.theme = to;
  else delete root.dataset.theme;
  theme.textContent = isDark() ? "Light" : "Dark";
  repaint.forEach((paint) => paint());
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(root.dataset.theme));
let before: string | undefined;
addEventListener("beforeprint", () => {
  before = root.dataset.theme;
  setTheme("light");
});
addEventListener("afterprint", () => setTheme(before));

function lead(): string {
  const kept = membersOf(d).filter((m) => m.kept).length;
  const all = d.fit?.models_in ?? d.show?.fitted_on?.members;
  const what = d.show || d.fit ? `${d.show?.method ? `Method ${stackName(d)}` : `Preset ${stackName(d)}`}, ${kept}${isNumber(all) ? ` of ${all}` : ""} models. `
    : d.sweep ? `${counted(sweepOf(d)?.methods.length ?? 0, "method")} over ${counted(sweepOf(d)?.values.length ?? 0, "value")} of ${name(d.sweep.key)}, on a pool of ${counted(d.sweep.models_in, "model")}. `
    : d.compare ? `${counted(board?.rows.length ?? 0, "method")} on a pool of ${counted(d.compare.models_in, "model")}. ` : "";
  const scored = d.evaluate ? `Scored on ${counted(board?.samples ?? d.evaluate.samples, board?.unit ?? "row")} of split ${name(d.evaluate.split)}${d.evaluate.seen_in_fitting ? ", which the fit saw." : ", which the fit did not see."}`
    : board ? `Scored on ${counted(board.samples, board.unit)} of split ${board.split}${board.source === "fit" ? ", each by fits that did not see it." : "."}` : "";
  return capital(taskOf(d)) + ". " + what + scored;
}

const list = answers(d);
const title = name((d.show?.model ?? d.fit?.model ?? "").split(/[/\\]/).pop()) || capital(Object.keys(d)[1] ?? "report");
document.title = `corestack report: ${title}`;
document.getElementById("page")!.replaceChildren(
  h("header", {}, h("p", { class: "kicker" }, "corestack report", h("span", {}, title)), theme, h("h1", {}, verdictOf(d)), h("p", { class: "lead" }, lead())),
  h("nav", { "aria-label": "Answers" }, h("ol", {}, ...list.filter((answer) => answer.id !== "better" && answer.id !== "made").map((answer) =>
    h("li", {}, h("a", { href: "#" + answer.id }, h("span", { class: "q" }, answer.question), h("span", { class: "a" }, answer.headline)))))),
  ...list.map(section),
  h("footer", {}, h("p", {}, "This file is complete: it loads nothing and sends nothing. Its numbers are in it as JSON, in the element with id “data”.")));
setTheme(undefined);
