import java.io.DataInputStream;
import java.io.EOFException;
import java.io.FileWriter;
import java.io.PrintWriter;
import java.io.Writer;
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
 * line a request: the client's port, offset, CPU time and time asleep, each at least and at most.
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
            long since = System.nanoTime();
            for (long left = ns; left > 0; left = since + ns - System.nanoTime()) {
                LockSupport.parkNanos(left);
            }
            return System.nanoTime() - since;
        }
        long sinceCpu = THREADS.getCurrentThreadCpuTime();
        while (THREADS.getCurrentThreadCpuTime() - sinceCpu < ns) {
            continue;
        }
        return 0;
    }

    private static void note(PrintWriter out, long... numbers) {
        StringBuilder line = new StringBuilder();
        for (long number : numbers) {
            line.append(number).append(' ');
        }
        synchronized (out) {
            out.println(line);
        }
    }

    /** Loads what requests need: else the first ones wait for the lock of a class, which the JVM asks for again after 1, 8 and 64 ms. */
    private static void warmUp(ExecutorService pool) throws Exception {
        PrintWriter out = new PrintWriter(Writer.nullWriter());
        for (byte kind : new byte[] {'c', 's'}) {
            Future<?> done = pool.submit(() -> {
                note(out, work(kind, 1_000), Long.parseLong("1"));
                return null;
            });
            done.get();
        }
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
                long cpu = THREADS.getCurrentThreadCpuTime() - sinceCpu;
                note(out, socket.getPort(), at, cpu, cpu + readCpu, asleep > 0 ? ns : 0, asleep);
                return null;
            });
            done.get();
        }
    }

    public static void main(String[] args) throws Exception {
        PrintWriter out = new PrintWriter(new FileWriter(args[1]));
        ExecutorService pool = Executors.newFixedThreadPool(4);
        warmUp(pool);
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
