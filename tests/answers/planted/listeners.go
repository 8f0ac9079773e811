// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

// listeners keeps 100 buffers of 16 KiB a second in Go's own heap; C's library is in it for the names of hosts.
package main

// #include <stdlib.h>
import "C"
import "time"

var listeners [][]byte

func main() {
	for {
		listeners = append(listeners, make([]byte, 16384))
		C.free(C.malloc(100))
		time.Sleep(10 * time.Millisecond)
	}
}
