// A server in Go, a goroutine for each connection. Its log has a line a request: the client's port, offset, CPU time, time
// asleep.
//
// usage: server PORT LOG
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const (
	request, response  = 16, 64
	clockThreadCPUTime = 3
)

var (
	mutex sync.Mutex
	out   *bufio.Writer
)

func cpuTime() int64 {
	var now syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockThreadCPUTime, uintptr(unsafe.Pointer(&now)), 0)
	return now.Nano()
}

func compute(ns int64) int64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	since := cpuTime()
	for cpuTime()-since < ns {
	}
	return cpuTime() - since
}

func work(kind byte, ns int64) (int64, int64) {
	if kind == 's' {
		time.Sleep(time.Duration(ns))
		return 0, ns
	}
	return compute(ns), 0
}

func serve(conn net.Conn) {
	defer conn.Close()
	port := conn.RemoteAddr().(*net.TCPAddr).Port
	data, answer := make([]byte, request), make([]byte, response)
	for offset := 0; ; offset += request {
		if _, err := io.ReadFull(conn, data); err != nil {
			return
		}
		if data[0] == 'q' {
			mutex.Lock()
			out.Flush()
			os.Exit(0)
		}
		us, _ := strconv.ParseInt(strings.TrimSpace(string(data[1:])), 10, 64)
		cpu, asleep := work(data[0], us*1000)
		mutex.Lock()
		fmt.Fprintln(out, port, offset, cpu, asleep)
		mutex.Unlock()
		conn.Write(answer)
	}
}

func main() {
	file, err := os.Create(os.Args[2])
	if err != nil {
		panic(err)
	}
	out = bufio.NewWriter(file)
	listener, err := net.Listen("tcp4", "127.0.0.1:"+os.Args[1])
	if err != nil {
		panic(err)
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		go serve(conn)
	}
}
