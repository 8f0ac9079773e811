// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

// A Go program with a heap profile: it serves its own reading of it, and allocates as lines of standard input say.
package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

type session struct {
	id   int
	name string
	data []byte
}

var kept = map[int]*session{}
var ring [4096][]byte

func remember(i int) *session { // inlined into leakHere: both are frames
	return &session{id: i, name: "s" + strconv.Itoa(i), data: make([]byte, 900)}
}

var guard sync.Mutex

//go:noinline
func leakHere(i int) {
	guard.Lock()
	kept[i] = remember(i)
	guard.Unlock()
}

//go:noinline
func churnHere(i int) { ring[i%len(ring)] = make([]byte, 64+(i*7919)%8000) }

//go:noinline
func bigHere() []byte { return make([]byte, 3<<20) }

func grow[T any](n int) []T { return make([]T, n) }

var goes sync.WaitGroup
var stops = make(chan bool)

// Allocates until it is stopped; so many that are freed for each one that leaks.
func loop(churn int) {
	defer goes.Done()
	for i := len(kept); ; i++ {
		select {
		case <-stops:
			return
		default:
		}
		leakHere(i)
		for k := 0; k < churn; k++ {
			churnHere(i*churn + k)
		}
		if i%16 == 0 {
			runtime.Gosched()
		}
	}
}

func main() {
	if len(os.Args) > 1 {
		runtime.MemProfileRate, _ = strconv.Atoi(os.Args[1])
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go http.Serve(listener, nil)
	big, generic := bigHere(), grow[[64]int64](2000)
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); fmt.Println("done") {
		words := strings.Fields(orders.Text())
		number, _ := strconv.Atoi(words[len(words)-1])
		switch words[0] {
		case "leak":
			for i := 0; i < number; i++ {
				leakHere(len(kept))
			}
		case "churn":
			for i := 0; i < number; i++ {
				churnHere(i)
			}
		case "loop":
			goes.Add(1)
			go loop(number)
		case "stop":
			stops <- true
			goes.Wait()
		case "collect":
			runtime.GC()
			runtime.GC()
		}
	}
	runtime.KeepAlive(big)
	runtime.KeepAlive(generic)
}
