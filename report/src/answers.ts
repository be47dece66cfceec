// The answer in a sentence to each question of the page. No DOM: tested with Node.
import {
  boardOf, confusionsOf, memberScore, membersOf, partsOf, similarityOf, slicesOf, stackName, sweepOf, taskOf, verdict,
  type Board, type Doc, type Documents, type Parts, type Row, type Score, type Step,
} from "./data";
import { capital, counted, isNumber, name, number, percent, probability, short, tail, units, whole, wilson } from "./text";

export const value = (score: Score, x: number | null | undefined): string =>
  score.percent ? percent(x) : score.digits === -1 ? short(x) : number(x);

export interface Answer {
  id: string;
  question: string;
  headline: string;
}

// How a rule's single best model is called in a sentence.
const rivalName = (board: Board): string =>
  board.source === "fit" ? `the best model alone, ${board.rival!.label}` : "the best single model";

function evidence(row: Row, score: Score): string {
  const p = row.p?.[score.key];
  return isNumber(p) ? `, p\u00a0${probability(p).startsWith("<") ? "" : "=\u00a0"}${probability(p)}` : "";
}

function theStack(d: Documents): string {
  const stack = stackName(d);
  const preset = ["default", "compact", "best", "paper", "prototype"].includes(stack);
  return stack === "the stack" ? "The stack" : preset ? `The ${stack} stack` : `The method ${stack}`;
}

// The first heading.
export function verdictOf(d: Documents): string {
  const board = boardOf(d);
  if (!board || (d.monitor && !d.evaluate)) return fallback(d);
  const score = board.scores[0];
  const mine = value(score, board.mine.scores[score.key]);
  const where = `${score.name} ${mine}`;
  const stack = theStack(d);
  if (!board.rival) return `${stack} reaches ${where} on ${counted(board.samples, board.unit)} of split ${board.split}.`;
  const against = `${where} against ${value(score, board.rival.scores[score.key])}`;
  if (board.source === "fit") return `${stack} has ${where} out of fold; ${rivalName(board)}, has ${value(score, board.rival.scores[score.key])}.`;
  if (d.evaluate?.seen_in_fitting) return `The fit saw these rows, so that ${against} of ${rivalName(board)} is no estimate.`;
  switch (verdict(board, board.rival)) {
    case "better": return `${stack} is better than ${rivalName(board)}: ${against}${evidence(board.rival, score)}.`;
    case "worse": return `${stack} is worse than ${rivalName(board)}: ${against}${evidence(board.rival, score)}.`;
    case "unclear": return `No clear difference from ${rivalName(board)}: ${against}${evidence(board.rival, score)}.`;
    default: return `${stack} has ${against} of ${rivalName(board)}, without a test.`;
  }
}

function fallback(d: Documents): string {
  if (d.fit && !d.monitor) return `${theStack(d)} keeps ${d.fit.models_kept} of ${counted(d.fit.models_in, "model")}; this fit was not scored.`;
  if (d.monitor || d.sweep) return changed(d) ?? better(d) ?? "No score to show.";
  if (d.inspect) return which(d) ?? "What is in a pool.";
  return `${theStack(d)}, a corestack model.`;
}

// By how much the score differs: "36% lower", "2.6 points higher".
function change(score: Score, mine: number, other: number): string {
  const difference = mine - other;
  const direction = difference > 0 ? "higher" : "lower";
  if (score.percent) return `${number(Math.abs(100 * difference), 1)} points ${direction}`;
  if (score.up || other <= 0 || mine <= 0) return `${number(Math.abs(difference))} ${direction}`;
  if (mine > 2 * other) return `${number(mine / other, 1)} times as high`;
  return `${percent(Math.abs(difference) / other, Math.abs(Math.abs(difference) / other - 0.5) > 0.4 ? 1 : 0)} ${direction}`;
}

function better(d: Documents): string | null {
  const board = boardOf(d);
  if (d.sweep) return swept(d);
  if (!board) return d.fit?.oof?.why ? `This fit was not scored: ${name(d.fit.oof.why)}.` : null;
  const score = board.scores[0];
  const others = board.rows.filter((row) => !row.mine);
  const than = board.rival
    ? `${score.name} is ${change(score, board.mine.scores[score.key], board.rival.scores[score.key])} than that of ${rivalName(board)}`
    : `${score.name} is ${value(score, board.mine.scores[score.key])}`;
  const times = (what: string) => others.filter((row) => verdict(board, row) === what).length;
  if (!others.length) return capital(than) + ".";
  if (d.evaluate?.seen_in_fitting) return `${capital(than)}, on rows that the fit saw: choose a split that it did not see.`;
  if (times("untested") === others.length)
    return board.source === "fit" ? `Out of fold, ${than}.` : capital(than) + "; intervals and tests were not computed.";
  const won = times("better");
  const of = `${won ? whole(won) : "none"} of ${counted(others.length, "other method")}`;
  const lost = times("worse");
  return `${capital(than)}; it clearly beats ${of}, and ${lost ? `clearly loses to ${whole(lost)}` : "none clearly beats it"}.`;
}

// The value of a sweep with the best score, and how far the worst is from it.
function swept(d: Documents): string | null {
  const sweep = sweepOf(d);
  if (!sweep) return null;
  const score = sweep.scores[0];
  const at = (step: Step) => step.scores[score.key];
  const order = [...sweep.steps].sort((a, b) => (at(a) - at(b)) * (score.up ? -1 : 1));
  const [best, worst] = [order[0], order[order.length - 1]];
  const of = sweep.methods.length > 1 ? ` (method ${name(best.method)})` : "";
  if (sweep.values.length < 2) return `${score.name} is ${value(score, at(best))} with ${sweep.key} ${name(best.value)}${of}, the only value tried.`;
  const same = sweep.methods.every((method) => new Set(sweep.steps.filter((step) => step.method === method).map(at)).size === 1);
  if (same) return `The value of ${sweep.key} changes nothing: ${score.name} is ${value(score, at(best))} with all ${whole(sweep.values.length)} values${of}.`;
  if (d.sweep!.key === "seed") {
    const one: Doc = (d.sweep!.summary ?? []).find((row: Doc) => row.method === best.method) ?? {};
    return `Over ${whole(sweep.values.length)} seeds ${score.name} is ${value(score, one[score.key + "_mean"] ?? at(best))} on average${of}, from ${value(score, Math.min(...order.filter((step) => step.method === best.method).map(at)))} to ${value(score, Math.max(...order.filter((step) => step.method === best.method).map(at)))}.`;
  }
  const ci = best.scores[score.key + "_ci"];
  const near = Array.isArray(ci) && order.every((step) => ci[0] <= at(step) && at(step) <= ci[1]);
  const direction = score.up ? "highest" : "lowest";
  return near ? `No value of ${sweep.key} is clearly best: ${score.name} is ${direction} with ${name(best.value)}, ${value(score, at(best))}${of}, and all lie within its interval.`
    : `${capital(score.name)} is ${direction} with ${sweep.key} ${name(best.value)}: ${value(score, at(best))}${of}, against ${value(score, at(worst))} with ${name(worst.value)}${worst.method === best.method ? "" : ` (${name(worst.method)})`}.`;
}

function which(d: Documents): string | null {
  const members = membersOf(d);
  const near = similarityOf(d);
  if (d.fit || d.show) {
    const kept = d.fit?.models_kept ?? d.show?.members?.length;
    const all = d.fit?.models_in ?? d.show?.fitted_on?.members;
    if (!isNumber(kept)) return null;
    if (!isNumber(all) || kept === all) return kept === 1 ? "It is one model." : `All ${whole(kept)} models are in the stack.`;
    return `${whole(kept)} of ${whole(all)} models are kept.`;
  }
  if (near?.closest && near.closest[2] > near.limit)
    return `${name(near.names[near.closest[0]])} and ${name(near.names[near.closest[1]])} say the same: CKA ${number(near.closest[2])}.`;
  return members.length ? `${counted(members.length, "model")}, no two of which say the same.` : null;
}

export interface Check {
  state: "ok" | "note" | "bad";
  what: string;
  detail: string;
}

const FINDINGS: Record<string, string> = {
  scale: "A model's probabilities look wrong", chance: "A model is no better than chance",
  order: "Rows may be in another order", classes: "Classes may be in another order", inverted: "A model seems inverted",
  leak: "A model may have seen its rows", ids: "Row ids", constant: "A model says the same of every row",
  identical: "Two models are identical", columns: "Columns", absent: "Predictions are missing", labels: "Labels",
  groups: "Groups", folds: "Folds", weights: "Row weights", boxes: "Boxes",
};

export function checksOf(d: Documents): Check[] {
  const checks: Check[] = [];
  const scored = d.evaluate;
  const add = (state: Check["state"], what: string, detail: string) => checks.push({ state, what, detail: name(detail) });
  if (scored && scored.seen_in_fitting === true) add("bad", "The model was fitted on these rows", "so the scores are no estimate");
  else if (scored && scored.seen_in_fitting === false)
    add("ok", "The scored rows were not used in the fit", `split ${scored.split}, ${counted(scored.cases ?? scored.samples, scored.cases || scored.images ? "image" : "row")}`);
  if (d.show?.pool && d.show.pool.fitted_on !== null)
    add(d.show.pool.fitted_on ? "ok" : "note", d.show.pool.fitted_on ? "The model was fitted on this pool" : "The model was fitted on another pool", `hash ${d.show.pool.hash}`);
  const sets = (d.bound?.conformal_methods ?? []).find((m: Doc) => m.method === "aps") ?? d.bound?.conformal;
  if (isNumber(sets?.coverage) && isNumber(sets?.assured))
    add(sets.coverage >= sets.assured ? "ok" : "note", `Prediction sets hold ${percent(sets.coverage, 0)} of the labels`,
      `asked for ${percent(1 - sets.alpha, 0)}; mean size ${number(sets.mean_size, 2)}`);
  (scored?.levels ?? []).forEach((level: number, i: number) => {
    const [held, rows] = [scored!.coverage?.[i], scored!.samples];
    if (!isNumber(held) || !rows) return;
    const [low, high] = wilson(level, rows, 2.576);
    add(held >= low && held <= high ? "ok" : "note", `Intervals for ${percent(level, 0)} hold ${percent(held, 1)}`,
      `mean width ${short(scored!.width?.[i])}; ${percent(low, 0)} to ${percent(high, 0)} would be chance`);
  });
  const doubt = d.fit?.noise;
  if (doubt?.alarm) add("note", "Some labels seem wrong", `about ${percent(doubt.rate)}; ${counted(doubt.rows_left_out, "row")} left out of the fit`);
  const checked = [d.fit, d.compare, d.inspect, d.sweep].find((doc) => doc?.findings);
  const findings: Doc[] = checked?.findings ?? [];
  for (const finding of findings) add("note", FINDINGS[finding.kind] ?? capital(name(finding.kind)), finding.text);
  if (checked && !findings.length) add("ok", "The pool's files look right", "no finding about order, scale, copies or leaks");
  const said = new Set<string>(findings.map((finding) => finding.text));
  for (const doc of [d.evaluate, d.fit, d.compare, d.monitor, d.sweep])
    for (const notice of doc?.notices ?? [])
      if (!said.has(notice)) {
        said.add(notice);
        add("note", "Notice", notice);
      }
  return checks;
}

// Confidence less accuracy, over the rows of a reliability diagram.
export function overconfidence(bins: Doc[] | undefined): number | null {
  const rows = (bins ?? []).reduce((sum, bin) => sum + bin.count, 0);
  return rows ? bins!.reduce((sum, bin) => sum + (bin.count ? bin.count * (bin.confidence - bin.accuracy) : 0), 0) / rows : null;
}

function trust(d: Documents): string | null {
  const checks = checksOf(d);
  const bad = checks.filter((check) => check.state === "bad");
  const notes = checks.filter((check) => check.state === "note").length;
  if (!checks.length) return null;
  if (bad.length) return `${bad.length === 1 ? "One check" : `${bad.length} checks`} failed: ${bad[0].what.toLowerCase()}.`;
  const end = notes ? `${notes === 1 ? "one thing" : counted(notes, "thing")} to note` : "all checks passed";
  const bound = d.bound?.holdout?.bound;
  const levels: number[] = d.evaluate?.levels ?? [];
  const last = levels.indexOf(0.9) >= 0 ? levels.indexOf(0.9) : levels.length - 1;
  const held = d.evaluate?.coverage?.[last];
  if (isNumber(bound) && taskOf(d) === "classification")
    return `With ${percent(1 - d.bound!.delta, 0)} confidence at most ${percent(bound)} of predictions are wrong; ${end}.`;
  if (last >= 0 && isNumber(held)) return `Intervals made to hold ${percent(levels[last], 0)} hold ${percent(held)} of the values; ${end}.`;
  if (isNumber(d.evaluate?.ece)) return `Its probabilities are off by ${percent(d.evaluate!.ece)} on average; ${end}.`;
  return capital(end) + ".";
}

function cost(d: Documents): string | null {
  const board = boardOf(d);
  if (d.sweep) return budget(d);
  const relative = board?.mine.cost ?? d.fit?.flops_rel;
  const flops = d.show?.flops ?? d.fit?.budget?.flops?.used;
  const cascade = d.fit?.cascade ?? d.show?.cascade;
  const unit = cascade?.cost_of === "flops" ? "FLOPs" : cascade?.cost_of === "latency_ms" ? "time" : "members";
  const early = cascade?.stops ? ` With its cascade: ${percent(cascade.cost, 0)} of its ${unit}.` : "";
  if (isNumber(relative))
    return (relative > 0.995 ? "It costs as much as running every model." : `It costs ${percent(relative, relative < 0.1 ? 1 : 0)} of running every model.`) + early;
  if (isNumber(flops)) return `One prediction takes ${units(flops)}FLOPs.`;
  return isNumber(d.show?.latency_ms) ? `One prediction takes ${short(d.show!.latency_ms)} ms.` : null;
}

// What a sweep says about scores and costs.
function budget(d: Documents): string | null {
  const sweep = sweepOf(d);
  if (!sweep) return null;
  const score = sweep.scores[0];
  const best = [...sweep.steps].sort((a, b) => (a.scores[score.key] - b.scores[score.key]) * (score.up ? -1 : 1))[0];
  const steps = sweep.steps.filter((step) => step.method === best.method && isNumber(step.cost) && step.cost > 0).sort((a, b) => a.cost! - b.cost!);
  if (steps.length < 2 || steps[0].cost === steps[steps.length - 1].cost) return null;
  const [low, high] = [steps[0], steps[steps.length - 1]];
  const share = (step: Step) => percent(step.cost, step.cost! < 0.1 ? 1 : 0);
  return `From ${share(low)} to ${share(high)} of the cost of all models, ${score.name}${sweep.methods.length > 1 ? ` of ${name(best.method)}` : ""} goes from ${value(score, low.scores[score.key])} to ${value(score, high.scores[score.key])}.`;
}

// Whether rows look like those of the fit.
function changed(d: Documents): string | null {
  const found = d.monitor;
  if (!found || d.evaluate?.seen_in_fitting) return null;
  if (found.alarm) return `Yes: the rows are not like those of the fit${found.first_alarm?.batch ? `; the alarm came in batch ${name(found.first_alarm.batch)}` : ""}.`;
  if (!found.rows) return "No row could be tested: none has predictions of every member.";
  const rows = counted(found.rows, "row");
  if (found.rows < 30) return `Too few rows to tell: ${rows} gave no alarm.`;
  const peak = `evidence reached ${number(found.evidence_peak, 1)} in ${rows}, and an alarm takes ${whole(found.evidence_alarm)}`;
  return found.evidence_peak < Math.sqrt(found.evidence_alarm) ? `No sign of a change: ${peak}.` : `Perhaps it has: ${peak}.`;
}

// The part with the lowest score. clear: chance alone, among so many, would rarely go so low.
export function hardest(parts: Parts): { part: Parts["parts"][number]; clear: boolean } | null {
  const scored = parts.parts.filter((part) => isNumber(part.score) && (part.count > 0 || !parts.counts));
  if (!scored.length) return null;
  const part = [...scored].sort((a, b) => (a.score! - b.score!) * (parts.score.up ? 1 : -1))[0];
  const rows = parts.score.key === "top1" ? part.count : 0;
  return { part, clear: !rows || parts.overall === null || scored.length * tail(part.score! * rows, rows, parts.overall) < 0.05 };
}

function wrong(d: Documents): string | null {
  const [parts, slice] = [partsOf(d), slicesOf(d)[0]];
  const pairs = confusionsOf(d);
  if (pairs && !pairs.length) return "No prediction is wrong.";
  const said = parts && lowest(parts);
  return said && slice ? `${said} ${lowest(slice) ?? ""}`.trim() : (said ?? (slice ? lowest(slice) : null));
}

function lowest(parts: Parts): string | null {
  const found = hardest(parts);
  if (!found) return null;
  const at = value(parts.score, found.part.score);
  const overall = value(parts.score, parts.overall);
  const said = parts.score.key === "top1" ? `${at} right against ${overall} overall` : `${parts.score.name} ${at} against ${overall} overall`;
  if (parts.one === "range of predictions") return `Errors are largest where predictions are ${found.part.name}: ${said}.`;
  const one = found.part.name.toLowerCase().startsWith(parts.one) ? "" : parts.one + " ";
  return found.clear ? `${capital(one)}${found.part.name} is the hardest: ${said}.`
    : `No ${parts.one} is clearly harder than the others; ${one}${found.part.name} is ${parts.score.up ? "lowest" : "worst"}, ${said}.`;
}

function made(d: Documents): string | null {
  const doc = d.show ?? d.fit ?? d.compare ?? d.evaluate ?? d.inspect ?? d.sweep;
  if (!doc) return null;
  const version = `corestack ${name(d.show?.corestack ?? d.corestack)}`;
  const seed = d.show?.fitted_on?.seed ?? doc.seed;
  const settings = [d.show || d.fit ? (d.show?.method ? `method ${stackName(d)}` : `preset ${stackName(d)}`) : "", isNumber(seed) ? `seed ${seed}` : ""];
  return `${[version, ...settings.filter(Boolean)].join(", ")}: the same pool gives the same bytes.`;
}

// Those that the documents answer, in the order of the page.
export function answers(d: Documents): Answer[] {
  const all: [string, string, string | null][] = [
    ["better", "Is it better?", better(d)],
    ["which", "Which models, and why?", which(d)],
    ["trust", "Can I trust it?", trust(d)],
    ["cost", "What does it cost?", cost(d)],
    ["wrong", "Where is it wrong?", wrong(d)],
    ["changed", "Has the data changed?", changed(d)],
    ["made", "How was it made?", made(d)],
  ];
  if (d.monitor && !d.evaluate) all.unshift(...all.splice(5, 1));
  return all.filter((entry) => entry[2] !== null).map(([id, question, headline]) => ({ id, question, headline: headline! }));
}

// The stack beside greedy selection, as AutoGluon does it.
export function ruleSentence(d: Documents): string {
  const board = boardOf(d);
  const row = ["autogluon", "greedy+temperature", "greedy"].map((method) => board?.rows.find((one) => one.method === method)).find((one) => one);
  if (!board || !row || row.mine || d.evaluate?.seen_in_fitting) return "";
  const score = board.scores[0];
  const said = { better: "clearly better", worse: "clearly worse", unclear: "no clear difference", untested: "not tested" }[verdict(board, row)];
  return `Beside AutoGluon's rule (greedy selection${row.method === "greedy" ? "" : " with temperature scaling"}), ${score.name} is ${change(score, board.mine.scores[score.key], row.scores[score.key])}: ${said}.`;
}

// Pixels of an image are no independent rows: of them a difference counts from here.
export const FAR = 0.05;

// Where confidence is above the share that is right, by more than chance.
export function rangeSentence(d: Documents, bins: Doc[] | undefined): string {
  const most = (bin: Doc) => Math.max(wilson(bin.accuracy, bin.count)[1], taskOf(d) === "segmentation" ? bin.accuracy + FAR : 0);
  const off = (bins ?? []).filter((bin) => bin.count && bin.confidence > most(bin));
  if (!bins?.length) return "";
  const list = off.map((bin) => `${percent(bin.lower, 0)} to ${percent(bin.upper, 0)} (${percent(bin.accuracy, 0)} right)`).join(", ");
  return off.length ? `It is overconfident where its confidence is ${list}.` : "In no range of confidence is it clearly overconfident.";
}

// The commands that made the model and the page, as far as the documents tell.
export function commands(d: Documents): string {
  const word = (text: unknown) => (/^[\w.,=:+/-]+$/.test(String(text)) ? String(text) : `'${String(text).replace(/'/g, "'\\''")}'`);
  const seed = d.show?.fitted_on?.seed;
  const file = word(d.show?.model ?? d.fit?.model ?? "MODEL");
  const set = Object.entries((d.show?.changed ?? {}) as Doc).map(([key, to]) => `-s ${word(`${key}=${to?.value ?? to?.model ?? to}`)}`);
  const how = d.show?.method ? `--method ${word(d.show.method)}` : d.show?.preset && d.show.preset !== "default" ? `--preset ${word(d.show.preset)}` : "";
  const fit = d.show?.adapted_to || !d.show ? "" : ["corestack fit POOL -o", file, how, seed ? `--seed ${seed}` : "", ...set].filter(Boolean).join(" ");
  const report = d.evaluate ? `corestack report ${file} POOL --split ${word(d.evaluate.split)} -r ${d.evaluate.resamples ?? 0}${d.evaluate.seed ? ` --seed ${d.evaluate.seed}` : ""} -o PAGE.html` : "";
  return [fit, report].filter(Boolean).map(name).join("; ");
}

// A sentence on the held-out loss by number of models.
export function pathSentence(d: Documents): string {
  const path: Doc[] = d.fit?.path ?? [];
  const chosen = path.find((step) => step.chosen);
  if (!chosen) return "";
  const best = [...path].sort((a, b) => a.loss - b.loss)[0];
  const start = `Held-out loss is ${number(chosen.loss, 4)} with the ${whole(chosen.size)} chosen`;
  return best === chosen || Math.abs(chosen.excess) < 5e-5 ? `${start}, as low as with any number.`
    : `${start} and lowest with ${whole(best.size)}: ${number(best.loss, 4)}, a difference of ${number(chosen.excess, 4)} ± ${number(1.96 * chosen.excess_se, 4)}.`;
}

// What half of the cost would lose.
export function halfSentence(d: Documents): string {
  const front: Doc[] = (d.fit?.front?.points ?? []).filter((point: Doc) => isNumber(point.flops));
  const kept = front.find((point) => point.kept);
  const cheaper = front.filter((point) => kept && point.flops <= kept.flops / 2).sort((a, b) => a.loss - b.loss)[0];
  return kept && cheaper ? `At ${percent(cheaper.flops / kept.flops, 0)} of this cost, ${counted(cheaper.size, "model")} would have a held-out loss of ${number(cheaper.loss, 4)} instead of ${number(kept.loss, 4)}.` : "";
}

export function memberSentence(d: Documents): string {
  const score = memberScore(d);
  const members = membersOf(d);
  if (!score || !members.length) return "";
  const best = [...members].sort((a, b) => (a.scores[score.key] - b.scores[score.key]) * (score.up ? -1 : 1))[0];
  return `The best model alone is ${name(best.name)} (out-of-fold ${score.name} ${value(score, best.scores[score.key])}).`;
}
