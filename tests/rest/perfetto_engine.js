// SPDX-License-Identifier: Apache-2.0
// Perfetto's trace processor as a process: requests come by stdin, answers go
// to stdout, both as streams of TraceProcessorRpc.
//
// usage: node perfetto_engine.js FOLDER    (engine_bundle.js and its .wasm)
//
// The bundle is made for a worker of a browser, of which it needs little: a
// port for messages, and a way to load files.
'use strict';
const fs = require('fs');
const path = require('path');

const folder = process.argv[2];

class FileRequest {
  open(method, url) {
    this.url = url;
  }
  send() {
    this.response = fs.readFileSync(path.join(folder, path.basename(this.url)));
  }
}

function writeAll(bytes) {
  for (let at = 0; at < bytes.length;)
    at += fs.writeSync(1, bytes, at);
}

const worker = {location: {href: ''}};
const port = {postMessage: writeAll};
const bundle = fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8');
// Without `process` it takes itself to be in a browser.
new Function('self', 'process', 'WorkerGlobalScope', 'XMLHttpRequest', 'console',
             bundle)(worker, undefined, Object, FileRequest,
                     {log() {}, warn() {}, error: console.error});
worker.onmessage({data: port});
process.stdin.on('data', bytes => port.onmessage({data: bytes}));
