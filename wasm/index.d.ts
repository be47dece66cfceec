export type Task = "classification" | "regression" | "segmentation" | "detection" | "multilabel";

/** A fitted stack. One prediction at a time; make several for several workers. */
export interface Stack {
  readonly task: Task;
  /** Names of the members, in the order of their predictions. */
  readonly members: readonly string[];
  /** Number of classes; of a regression, of outputs. */
  readonly classes: number;
  /** Names of the classes, or null where the fit had none. */
  readonly classNames: readonly string[] | null;
  /**
   * Predicts rows. predictions: for each member [rows][classes], row after row; null for one that is absent.
   * Returns [rows][classes]. Throws where numbers are not right, with member, row and class.
   */
  predict(predictions: readonly (Float32Array | null)[]): Float32Array;
  /** The class of each row that is decided for, from what predict gave. */
  decide(probabilities: Float32Array): Int32Array;
  free(): void;
}

/** Loads the stack. model, wasm: their bytes; by default model.cstack and corestack.wasm beside this file. */
export function load(options?: { model?: Uint8Array | ArrayBuffer; wasm?: Uint8Array | ArrayBuffer }): Promise<Stack>;
