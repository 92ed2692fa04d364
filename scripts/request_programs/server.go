// A server in Go, a goroutine for each connection. Its log has a line a request: the client's port, offset, CPU time and time
// asleep, each at least and at most. At most, a request used the CPU time of the whole process since the one noted before.
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
	request, response   = 16, 64
	clockProcessCPUTime = 2
	clockThreadCPUTime  = 3
)

var (
	mutex sync.Mutex
	out   *bufio.Writer
	last  int64
)

func cpuTime(clock uintptr) int64 {
	var now syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&now)), 0)
	return now.Nano()
}

func compute(ns int64) int64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	since := cpuTime(clockThreadCPUTime)
	for cpuTime(clockThreadCPUTime)-since < ns {
	}
	return cpuTime(clockThreadCPUTime) - since
}

// Returns CPU time, time asleep at least, and at most.
func work(kind byte, ns int64) (int64, int64, int64) {
	if kind == 's' {
		since := time.Now()
		time.Sleep(time.Duration(ns))
		return 0, ns, int64(time.Since(since))
	}
	return compute(ns), 0, 0
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
		cpu, asleep, asleepMost := work(data[0], us*1000)
		conn.Write(answer)
		mutex.Lock()
		now := cpuTime(clockProcessCPUTime)
		fmt.Fprintln(out, port, offset, cpu, now-last, asleep, asleepMost)
		last = now
		mutex.Unlock()
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
