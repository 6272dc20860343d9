// SPDX-License-Identifier: Apache-2.0
// node generate.mjs PACKAGES MODEL vulkan|cpu [COUNT [flash]]: evaluates a fixed prompt and prints COUNT (8) greedy
// tokens as one JSON line, with flash attention or with separate products and softmax. PACKAGES holds node_modules.
import {createRequire} from "node:module";
import path from "node:path";
import {pathToFileURL} from "node:url";

const [packages, modelPath, backend, count = "8", attention = ""] = process.argv.slice(2);
if (backend === "cpu") process.env.GGML_VK_VISIBLE_DEVICES = "";
else process.env.GGML_VK_VISIBLE_DEVICES ??= "0";  // without it the library skips CPU devices such as lavapipe
process.env.GGML_VK_DEBUG_MARKERS ??= "1";  // the library then gives its pipelines debug names

const resolve = createRequire(path.join(path.resolve(packages), "package.json")).resolve;
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(resolve("node-llama-cpp")).href);
const llama = await getLlama({
    gpu: "vulkan", build: "never", skipDownload: true, progressLogs: false, logLevel: LlamaLogLevel.error,
    vramPadding: 0, ramPadding: 0
});
const model = await llama.loadModel({modelPath, gpuLayers: backend === "cpu" ? 0 : "max", useMmap: false});
const context = await model.createContext({contextSize: 64, batchSize: 32, threads: 1, flashAttention: attention === "flash"});
const sequence = context.getSequence();

const prompt = [1, ...[72, 101, 108, 108, 111].map((byte) => byte + 3)];  // <s> and the bytes of "Hello"
const tokens = [];
for await (const token of sequence.evaluate(prompt, {temperature: 0, yieldEogToken: true})) {
    tokens.push(token);
    if (tokens.length >= Number(count)) break;
}
console.log(JSON.stringify({
    backend, gpu: llama.gpu, devices: await llama.getGpuDeviceNames(), gpuLayers: model.gpuLayers, tokens
}));
await context.dispose();
await model.dispose();
await llama.dispose();
