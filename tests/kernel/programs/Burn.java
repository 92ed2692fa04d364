/** A server that computes in burn() for each byte that comes. */
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;

public class Burn {
    static long burn() {
        long sum = 0;
        for (long i = 0; i < 10_000_000L; i++) sum = (sum + i * i) % 1_000_003L;
        return sum;
    }

    public static void main(String[] arguments) throws Exception {
        ServerSocket listener = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
        System.out.println(listener.getLocalPort());
        Socket sock = listener.accept();
        while (sock.getInputStream().read() >= 0) {
            burn();
            sock.getOutputStream().write('!');
        }
    }
}
