import java.io.DataInputStream;
import java.io.EOFException;
import java.io.FileWriter;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.locks.LockSupport;

/**
 * A server in Java: a thread for each connection reads, and a pool of threads does the work of each request. Its log has a
 * line a request: the client's port, offset, CPU time, time asleep.
 *
 * usage: Server PORT LOG
 */
public final class Server {
    private static final int REQUEST = 16;
    private static final int RESPONSE = 64;
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private Server() {}

    /** Returns the time asleep. */
    private static long work(byte kind, long ns) {
        if (kind == 's') {
            long until = System.nanoTime() + ns;
            for (long left = ns; left > 0; left = until - System.nanoTime()) {
                LockSupport.parkNanos(left);
            }
            return ns;
        }
        long sinceCpu = THREADS.getCurrentThreadCpuTime();
        while (THREADS.getCurrentThreadCpuTime() - sinceCpu < ns) {
            continue;
        }
        return 0;
    }

    private static void serve(Socket socket, ExecutorService pool, PrintWriter out) throws Exception {
        DataInputStream in = new DataInputStream(socket.getInputStream());
        byte[] data = new byte[REQUEST];
        long since = THREADS.getCurrentThreadCpuTime();
        for (long offset = 0; ; offset += REQUEST) {
            try {
                in.readFully(data);
            } catch (EOFException end) {
                socket.close();
                return;
            }
            if (data[0] == 'q') {
                out.flush();
                Runtime.getRuntime().halt(0);
            }
            long ns = Long.parseLong(new String(data, 1, REQUEST - 1).trim()) * 1_000;
            long at = offset;
            long readCpu = THREADS.getCurrentThreadCpuTime() - since;
            since += readCpu;
            Future<?> done = pool.submit(() -> {
                long sinceCpu = THREADS.getCurrentThreadCpuTime();
                long asleep = work(data[0], ns);
                socket.getOutputStream().write(new byte[RESPONSE]);
                long cpu = readCpu + THREADS.getCurrentThreadCpuTime() - sinceCpu;
                synchronized (out) {
                    out.println(socket.getPort() + " " + at + " " + cpu + " " + asleep);
                }
                return null;
            });
            done.get();
        }
    }

    public static void main(String[] args) throws Exception {
        PrintWriter out = new PrintWriter(new FileWriter(args[1]));
        ExecutorService pool = Executors.newFixedThreadPool(4);
        ServerSocket listener = new ServerSocket(Integer.parseInt(args[0]), 64, InetAddress.getByName("127.0.0.1"));
        while (true) {
            Socket socket = listener.accept();
            socket.setTcpNoDelay(true);
            Thread reader = new Thread(() -> {
                try {
                    serve(socket, pool, out);
                } catch (Exception error) {
                    error.printStackTrace();
                }
            });
            reader.setDaemon(true);
            reader.start();
        }
    }
}
