package main

import (
	"fmt"
	"net"
	"net/http"
	"runtime"
)

// The command of the program that serves HTTP.
const httpCommand = "http"

var helloText = []byte("Hello, world!\n")

// Serves the answer of `ramie serve --hello` on one thread until the program is killed; prints the
// address.
func serveHTTP() error {
	runtime.GOMAXPROCS(1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("listening on %s\n", listener.Addr())
	hello := func(answer http.ResponseWriter, _ *http.Request) {
		answer.Header().Set("Content-Type", "text/plain")
		_, _ = answer.Write(helloText)
	}
	return http.Serve(listener, http.HandlerFunc(hello))
}
