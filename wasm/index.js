// Predicts with a fitted stack: corestack's library for prediction as WebAssembly. index.d.ts has the types.

const TASKS = ["classification", "regression", "segmentation", "detection", "multilabel"];

async function bytesOf(name) {
  const url = new URL(name, import.meta.url);
  if (url.protocol === "file:" && typeof process !== "undefined") {
    const { readFile } = await import("node:fs/promises");
    return readFile(url);
  }
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${name}: ${response.status} ${response.statusText}`);
  return response.arrayBuffer();
}

// The library asks the system for nothing that it needs: cores, files of limits and temporary files are not there.
const absent = new Proxy({}, { get: (_, name) => (String(name).startsWith("emscripten_") ? () => {} : () => -1) });

function clock(memory) {
  return (_id, _precision, at) => {
    new DataView(memory().buffer).setBigUint64(at, BigInt(Math.round(performance.now() * 1e6)), true);
    return 0;
  };
}

class Stack {
  #c; #context = 0; #model = 0; #predictor = 0; #room = 0; #size = 0;

  constructor(exports, bytes) {
    const c = (this.#c = exports);
    const slot = c.malloc(4);
    const data = c.malloc(bytes.length || 1);
    const pointer = () => new DataView(c.memory.buffer).getUint32(slot, true);
    try {
      if (c.cst_context_create(slot) !== 0) throw new Error("corestack: out of memory");
      this.#context = pointer();
      new Uint8Array(c.memory.buffer).set(bytes, data);
      if (c.cst_model_load_memory(this.#context, slot, data, bytes.length) !== 0) throw this.#failure();
      this.#model = pointer();
      if (c.cst_predictor_create(this.#context, slot, this.#model) !== 0) throw this.#failure();
      this.#predictor = pointer();
    } catch (error) {
      this.free();
      throw error;
    } finally {
      c.free(slot);
      c.free(data);
    }
    this.task = TASKS[c.cst_model_task(this.#model)];
    this.classes = Number(c.cst_model_classes(this.#model));
    const count = Number(c.cst_model_members(this.#model));
    this.members = Array.from({ length: count }, (_, k) => this.#text(c.cst_model_member_name(this.#model, k)));
    this.classNames = c.cst_model_class_name(this.#model, 0)
      ? Array.from({ length: this.classes }, (_, i) => this.#text(c.cst_model_class_name(this.#model, i)))
      : null;
  }

  #text(at) {
    const memory = new Uint8Array(this.#c.memory.buffer);
    return new TextDecoder().decode(memory.slice(at, memory.indexOf(0, at)));
  }

  #failure() {
    return new Error(`corestack: ${this.#text(this.#c.cst_last_error(this.#context))}`);
  }

  // One piece of memory, kept for the next call.
  #take(bytes) {
    if (!this.#context) throw new Error("corestack: the stack was freed");
    if (bytes > this.#size) {
      this.#c.free(this.#room);
      this.#room = this.#c.malloc(bytes);
      this.#size = this.#room ? bytes : 0;
      if (!this.#room) throw new Error("corestack: out of memory");
    }
    return this.#room;
  }

  predict(predictions) {
    const members = this.members.length;
    const given = predictions.find((p) => p);
    if (predictions.length !== members || !given)
      throw new Error(`corestack: predictions of the ${members} members are required`);
    const length = given.length;
    if (length % this.classes || predictions.some((p) => p && (!(p instanceof Float32Array) || p.length !== length)))
      throw new Error(`corestack: each member needs a Float32Array of equally many rows of ${this.classes} numbers`);
    const start = this.#take(4 * (members + 1) * length + 4 * members + members);
    const out = start + 4 * members * length;
    const table = out + 4 * length;
    const present = table + 4 * members;
    const floats = new Float32Array(this.#c.memory.buffer);
    const words = new Uint32Array(this.#c.memory.buffer);
    const flags = new Uint8Array(this.#c.memory.buffer);
    predictions.forEach((p, k) => {
      if (p) floats.set(p, start / 4 + k * length);
      words[table / 4 + k] = start + 4 * k * length;
      flags[present + k] = p ? 1 : 0;
    });
    const rows = BigInt(length / this.classes);
    if (this.#c.cst_predictor_predict_present(this.#predictor, table, present, rows, out) !== 0)
      throw new Error(`corestack: ${this.#text(this.#c.cst_predictor_error(this.#predictor))}`);
    return new Float32Array(this.#c.memory.buffer, out, length).slice();
  }

  decide(probabilities) {
    const rows = probabilities.length / this.classes;
    const start = this.#take(4 * probabilities.length + 4 * rows);
    new Float32Array(this.#c.memory.buffer).set(probabilities, start / 4);
    const out = start + 4 * probabilities.length;
    if (this.#c.cst_model_decide(this.#context, this.#model, start, BigInt(rows), out) !== 0) throw this.#failure();
    return new Int32Array(this.#c.memory.buffer, out, rows).slice();
  }

  free() {
    this.#c.cst_predictor_free(this.#context, this.#predictor);
    this.#c.cst_model_free(this.#context, this.#model);
    this.#c.cst_context_free(this.#context);
    this.#c.free(this.#room);
    this.#context = this.#model = this.#predictor = this.#room = this.#size = 0;
  }
}

export async function load({ model, wasm } = {}) {
  let exports = null;
  const wasi = new Proxy({ clock_time_get: clock(() => exports.memory) }, {
    get: (own, name) => own[name] ?? (() => 52), // not supported
  });
  const code = wasm ?? (await bytesOf("./corestack.wasm"));
  const made = await WebAssembly.instantiate(code, { env: absent, wasi_snapshot_preview1: wasi });
  exports = made.instance.exports;
  exports._initialize();
  return new Stack(exports, new Uint8Array(model ?? (await bytesOf("./model.cstack"))));
}
