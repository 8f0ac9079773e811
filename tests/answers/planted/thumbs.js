// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Keeps 200 objects of some KiB a second in the heap of JavaScript.
'use strict';

const kept = [];

function remember() {
  for (let i = 0; i < 20; i++)
    kept.push(Array.from({ length: 400 }, (_, nr) => nr + kept.length + 0.5));
  if (kept.length === 20)
    console.log('warm');
}

setInterval(remember, 100);
