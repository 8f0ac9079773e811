// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

// sessions keeps 100 buffers of 16 KiB a second in Go's own heap.
package main

import "time"

var sessions [][]byte

func main() {
	for {
		sessions = append(sessions, make([]byte, 16384))
		time.Sleep(10 * time.Millisecond)
	}
}
