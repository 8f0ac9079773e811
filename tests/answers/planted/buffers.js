// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Keeps a buffer of 64 KiB and a zlib stream that is never closed, ten times a second.
'use strict';
const zlib = require('zlib');

const kept = [];

function upload() {
  kept.push(Buffer.alloc(65536, 'x'));
  const stream = zlib.createDeflate();
  stream.write('some text that is compressed');
  kept.push(stream);
  if (kept.length === 20)
    console.log('warm');
}

setInterval(upload, 100);
