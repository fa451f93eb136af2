// Go's net/http against the example `mirror`.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

func must(is bool, what string, got ...any) {
	if !is {
		fmt.Println(append([]any{"failed:", what}, got...)...)
		os.Exit(1)
	}
}

func main() {
	url := "http://" + os.Args[1]
	client := &http.Client{
		Timeout:   20 * time.Second,
		Transport: &http.Transport{ExpectContinueTimeout: 20 * time.Second},
	}
	ask := func(method, path string, body io.Reader, expect bool) (*http.Response, string) {
		request, err := http.NewRequest(method, url+path, body)
		must(err == nil, "a request", err)
		if expect {
			request.Header.Set("Expect", "100-continue")
		}
		response, err := client.Do(request)
		must(err == nil, method+" "+path, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		must(err == nil, "a body of "+path, err)
		return response, string(text)
	}
	large := strings.Repeat("0123456789abcdef", 100_000)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				_, text := ask("POST", "/", strings.NewReader(large), false)
				must(text == large, "a body with a length")
				_, text = ask("POST", "/", strings.NewReader(large), true)
				must(text == large, "a body that waits for 100")
				_, text = ask("POST", "/", io.MultiReader(bytes.NewBufferString("one "),
					bytes.NewBufferString("two")), false)
				must(text == "one two", "a body in chunks", text)
				response, text := ask("GET", "/chunks", nil, false)
				must(text == "line 1\nline 2\nline 3\n", "chunks", text)
				must(response.Trailer.Get("X-Lines") == "3", "a trailer", response.Trailer)
				response, _ = ask("POST", "/refuse", strings.NewReader(large), true)
				must(response.StatusCode == 403, "a refusal", response.StatusCode)
				response, _ = ask("HEAD", "/head", nil, false)
				must(response.StatusCode == 200, "HEAD", response.StatusCode)
				_, text = ask("GET", "/close", nil, false)
				must(text == "closed\n", "a close", text)
			}
		})
	}
	all.Wait()
	fmt.Println("net/http: passed")
}
