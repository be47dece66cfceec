// Runs graphs by onnxruntime: each line of standard input is a job {model, rows, inputs: [{name, file, columns}], out, decisions},
// files of numbers without a header. The folder of onnxruntime-node is the first argument.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(process.argv[2] + "/node_modules/");
const ort = require("onnxruntime-node");

const bytes = (tensor) => Buffer.from(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength);
const numbers = (file, Type) => {
    const read = readFileSync(file);
    return new Type(read.buffer.slice(read.byteOffset, read.byteOffset + read.length));
};
for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
    const job = JSON.parse(line);
    const session = await ort.InferenceSession.create(job.model, { intraOpNumThreads: 1, logSeverityLevel: 3 });
    const feeds = {};
    for (const { name, file, columns } of job.inputs)
        feeds[name] = columns
            ? new ort.Tensor("float32", numbers(file, Float32Array), [job.rows, columns])
            : new ort.Tensor("int64", numbers(file, BigInt64Array), [job.rows]);
    const start = process.hrtime.bigint();
    const outputs = await session.run(feeds);
    const seconds = Number(process.hrtime.bigint() - start) / 1e9;
    writeFileSync(job.out, bytes(outputs.probabilities ?? outputs.values));
    if (outputs.decisions) writeFileSync(job.decisions, bytes(outputs.decisions));
    console.log(JSON.stringify({ seconds }));
    await session.release();
}
