// Numbers and names as text. No DOM: the answers are tested with Node.

// Characters that steer the layout of other text become visible.
export const name = (text: unknown): string =>
  String(text ?? "").replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (c) =>
    "⟨" + c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0") + "⟩");

export const isNumber = (x: unknown): x is number => typeof x === "number" && Number.isFinite(x);

export const number = (x: number | null | undefined, digits = 3): string =>
  isNumber(x) ? x.toFixed(digits).replace("-", "−") : "–";

export const percent = (x: number | null | undefined, digits = 1): string =>
  isNumber(x) ? number(100 * x, digits) + "%" : "–";

// As many digits as the size of the number needs.
export function short(x: number | null | undefined): string {
  if (!isNumber(x)) return "–";
  const size = Math.abs(x);
  return size >= 1000 ? whole(x) : number(x, size >= 100 ? 1 : size >= 10 ? 2 : 3);
}

export const whole = (x: number): string => Math.round(x).toLocaleString("en-US").replace("-", "−");

// 16308930 -> "16.3 M"
export function units(x: number | null | undefined): string {
  if (!isNumber(x)) return "–";
  const suffixes = ["", " k", " M", " G", " T", " P"];
  const power = x > 0 ? Math.max(0, Math.min(5, Math.floor(Math.log10(x) / 3))) : 0;
  const value = x / 1000 ** power;
  return (value >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)))) + suffixes[power];
}

export const probability = (p: number | null | undefined): string =>
  !isNumber(p) ? "–" : p < 0.001 ? "<\u00a00.001" : number(p, 3);

export const counted = (n: number, what: string, many = what + "s"): string => `${whole(n)} ${n === 1 ? what : many}`;

// mIoU stays as it is.
export const capital = (text: string): string => (/^.[A-Z]/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1));

// 95% interval of a share (Wilson), or another level by its quantile z.
export function wilson(share: number, rows: number, z = 1.959964): [number, number] {
  const scale = 1 + (z * z) / rows;
  const middle = share + (z * z) / (2 * rows);
  const half = z * Math.sqrt((share * (1 - share)) / rows + (z * z) / (4 * rows * rows));
  return [Math.max(0, (middle - half) / scale), Math.min(1, (middle + half) / scale)];
}

// Probability of at most `right` successes in `rows` trials.
export function tail(right: number, rows: number, share: number): number {
  let [term, sum] = [rows * Math.log1p(-Math.min(share, 1 - 1e-12)), 0];
  for (let i = 0; i <= Math.round(right); i++) {
    sum += Math.exp(term);
    term += Math.log(((rows - i) / (i + 1)) * (share / Math.max(1 - share, 1e-12)));
  }
  return sum;
}

// Round places of an axis from `low` to `high`.
export function ticks(low: number, high: number, count: number): { at: number[]; digits: number } {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * (rough / power < 1.5 ? 1 : rough / power < 3.5 ? 2 : rough / power < 7.5 ? 5 : 10);
  const at: number[] = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) at.push(i * step);
  return { at, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}
