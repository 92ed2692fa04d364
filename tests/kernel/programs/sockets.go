// A server and clients of Go's standard library, which listens with MPTCP by default. Each counts the
// reads and writes that moved bytes, and prints the counts, as JSON, when it ends.
//
//	sockets server ADDRESS             serves HTTP; prints its port; ends with its standard input
//	sockets activated                  the same on descriptor 3 (LISTEN_FDS)
//	sockets client ADDRESS N tcp|mptcp connects, says so, waits for a line, and makes N requests on that connection;
//	                                   with `mptcp+1`, waits for one subflow more before it says so
//	sockets self N                     a server and such a client in one process
//	sockets ktls N                     N messages over a connection that the kernel encrypts; `"token": -1` where it cannot
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Counts of one process.
type Counts struct {
	Connections  atomic.Int64
	Reads        atomic.Int64
	ReadBytes    atomic.Int64
	Writes       atomic.Int64
	WrittenBytes atomic.Int64
	token        atomic.Int64
}

func (c *Counts) print() {
	json.NewEncoder(os.Stdout).Encode(map[string]int64{
		"connections": c.Connections.Load(), "reads": c.Reads.Load(), "read_bytes": c.ReadBytes.Load(),
		"writes": c.Writes.Load(), "written_bytes": c.WrittenBytes.Load(), "token": c.token.Load(),
	})
}

type counted struct {
	net.Conn
	counts *Counts
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.counts.Reads.Add(1)
		c.counts.ReadBytes.Add(int64(n))
	}
	return n, err
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if n > 0 {
		c.counts.Writes.Add(1)
		c.counts.WrittenBytes.Add(int64(n))
	}
	return n, err
}

type listener struct {
	net.Listener
	counts *Counts
}

func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.counts.Connections.Add(1)
	return counted{conn, l.counts}, nil
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Serves until the returned function is called, which waits for the writes of every response to be counted: a client
// has a response before the write that sent it returns.
func serve(inner net.Listener, counts *Counts) (finish func()) {
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, strings.Repeat("x", 97))
	})}
	go server.Serve(listener{inner, counts})
	return func() { check(server.Shutdown(context.Background())) }
}

func port(listener net.Listener) string {
	_, port, err := net.SplitHostPort(listener.Addr().String())
	check(err)
	return port
}

// What struct mptcp_info begins with (linux/mptcp.h).
type mptcpInfo struct {
	subflows uint8
	_        [11]uint8
	token    uint32
}

func info(conn *net.TCPConn) (found mptcpInfo) {
	const solMptcp, mptcpInfoOption = 284, 1
	raw, err := conn.SyscallConn()
	check(err)
	check(raw.Control(func(fd uintptr) {
		size := uint32(unsafe.Sizeof(found))
		_, _, errno := syscall.Syscall6(syscall.SYS_GETSOCKOPT, fd, solMptcp, mptcpInfoOption,
			uintptr(unsafe.Pointer(&found)), uintptr(unsafe.Pointer(&size)), 0)
		if errno != 0 {
			found = mptcpInfo{}
		}
	}))
	return found
}

func connect(address, kind string, counts *Counts) net.Conn {
	dialer := net.Dialer{}
	dialer.SetMultipathTCP(strings.HasPrefix(kind, "mptcp"))
	conn, err := dialer.Dial("tcp", address)
	check(err)
	counts.Connections.Add(1)
	for kind == "mptcp+1" && info(conn.(*net.TCPConn)).subflows == 0 {
		time.Sleep(time.Millisecond)
	}
	counts.token.Store(int64(info(conn.(*net.TCPConn)).token))
	return counted{conn, counts}
}

func request(address string, conn net.Conn, number int) {
	dial := func(context.Context, string, string) (net.Conn, error) { return conn, nil }
	client := http.Client{Transport: &http.Transport{DialContext: dial, MaxConnsPerHost: 1}}
	for range number {
		response, err := client.Get("http://" + address + "/")
		check(err)
		_, err = io.Copy(io.Discard, response.Body)
		check(err)
		response.Body.Close()
	}
	client.CloseIdleConnections()
}

// Has the kernel encrypt what a socket sends, or decrypt what it receives: struct tls12_crypto_info_aes_gcm_128 of
// linux/tls.h, with a key of zeros.
func encrypt(conn *net.TCPConn, direction int) bool {
	const solTCP, tcpULP, solTLS, tls12, aesGCM128 = 6, 31, 282, 0x0303, 51
	crypto := make([]byte, 40)
	binary.NativeEndian.PutUint16(crypto, tls12)
	binary.NativeEndian.PutUint16(crypto[2:], aesGCM128)
	raw, err := conn.SyscallConn()
	check(err)
	var refused error
	check(raw.Control(func(fd uintptr) {
		refused = syscall.SetsockoptString(int(fd), solTCP, tcpULP, "tls")
		if refused == nil {
			refused = syscall.SetsockoptString(int(fd), solTLS, direction, string(crypto))
		}
	}))
	if refused != nil {
		fmt.Fprintln(os.Stderr, "kernel TLS:", refused)
	}
	return refused == nil
}

// Sends messages on a connection that the kernel encrypts, and receives them at the other end.
func encrypted(number int, counts *Counts) bool {
	const tlsTX, tlsRX, size = 1, 2, 97
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	check(err)
	sender := connect(listener.Addr().String(), "tcp", counts).(counted)
	receiver, err := listener.Accept()
	check(err)
	counts.Connections.Add(1)
	if !encrypt(sender.Conn.(*net.TCPConn), tlsTX) || !encrypt(receiver.(*net.TCPConn), tlsRX) {
		return false
	}
	for range number {
		_, err = sender.Write(make([]byte, size))
		check(err)
		_, err = io.ReadFull(counted{receiver, counts}, make([]byte, size))
		check(err)
	}
	return true
}

func main() {
	counts := &Counts{}
	input := bufio.NewReader(os.Stdin)
	switch os.Args[1] {
	case "server", "activated":
		var inner net.Listener
		var err error
		if os.Args[1] == "server" {
			inner, err = net.Listen("tcp", os.Args[2])
		} else {
			inner, err = net.FileListener(os.NewFile(3, "listener"))
		}
		check(err)
		finish := serve(inner, counts)
		fmt.Println(port(inner))
		io.Copy(io.Discard, input)
		finish()
	case "client":
		number, err := strconv.Atoi(os.Args[3])
		check(err)
		conn := connect(os.Args[2], os.Args[4], counts)
		fmt.Println(conn.LocalAddr().(*net.TCPAddr).Port)
		input.ReadString('\n')
		request(os.Args[2], conn, number)
		conn.Close()
	case "ktls":
		number, err := strconv.Atoi(os.Args[2])
		check(err)
		if !encrypted(number, counts) {
			counts.token.Store(-1)
		}
	case "self":
		number, err := strconv.Atoi(os.Args[2])
		check(err)
		inner, err := net.Listen("tcp", "127.0.0.1:0")
		check(err)
		finish := serve(inner, counts)
		address := "127.0.0.1:" + port(inner)
		request(address, connect(address, "tcp", counts), number)
		finish()
	}
	counts.print()
}
