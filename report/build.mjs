// Bundles the page into src/report/page_template.h, pieces of C text before and after the data.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

const out = process.argv[2] ?? "../src/report/page_template.h";
const here = new URL(".", import.meta.url).pathname;
const options = { bundle: true, write: false, absWorkingDir: here, charset: "ascii", legalComments: "none", target: "es2022" };
const text = async (entry, more) => (await build({ ...options, ...more, entryPoints: [entry] })).outputFiles[0].text.trim();
const script = await text("src/page.ts", { minify: true, format: "iife" });
const style = await text("src/page.css", { minify: true });
await build({ ...options, write: true, entryPoints: ["src/answers.ts"], format: "esm", outfile: "build/answers.mjs" });

const hash = (content) => `'sha256-${createHash("sha256").update(content).digest("base64")}'`;
const policy = `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'`;
const [before, after] = readFileSync(here + "src/page.html", "utf8").trim()
  .replace("POLICY", () => policy).replace("STYLE", () => style).replace("SCRIPT", () => script).split("DATA");

// C compilers take literals of 4,095 bytes; `?` may begin a trigraph.
function pieces(content, variable) {
  const list = content.match(/[\s\S]{1,1800}/g).map((piece) =>
    '    "' + piece.replace(/[\\"?]/g, "\\$&").replace(/\n/g, "\\n") + '",\n');
  return `static const char *const ${variable}[] = {\n${list.join("")}    NULL};\n`;
}
writeFileSync(out.startsWith("/") ? out : here + out,
  "/* Made by report/build.mjs (scripts/report.sh --write). */\n#pragma once\n/* clang-format off */\n" + pieces(before, "BEFORE") + pieces(after + "\n", "AFTER"));
console.log(`${Buffer.byteLength(before + after)} bytes, of which script ${script.length} and style ${style.length}`);
