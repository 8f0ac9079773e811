// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Keeps sessions and makes garbage, as many as a line of its input says: "keep 1000", "churn 5000", "gc", "alive".
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;

public class Leak {
    static class Session {
        int id;
        String name;
        byte[] data;
    }

    static final List<Session> kept = new ArrayList<>();
    static final Object[] churned = new Object[256];

    static Session remember(int i) {
        Session session = new Session();
        session.id = i;
        session.name = "session-" + i;
        session.data = new byte[4000]; // the leak
        return session;
    }

    static void keep(int nr) {
        for (int i = 0; i < nr; i++)
            kept.add(remember(i));
    }

    static void churn(int nr) {
        for (int i = 0; i < nr; i++)
            churned[i & 255] = new byte[64 + (int) ((i * 7919L) % 8000)]; // no leak
    }

    /** Does both, a little of each at a time, in a thread of its own. */
    static void work(int turns, int pause) {
        for (int i = 0; i < turns; i++) {
            keep(20);
            churn(400);
            try {
                Thread.sleep(pause);
            } catch (InterruptedException e) {
                return;
            }
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] word = line.split(" ");
            int nr = word.length > 1 ? Integer.parseInt(word[1]) : 0;
            switch (word[0]) {
                case "keep": keep(nr); System.out.println("kept " + nr); break;
                case "churn": churn(nr); System.out.println("churned " + nr); break;
                case "work": new Thread(() -> work(nr, Integer.parseInt(word[2])), "worker").start(); System.out.println("works"); break;
                case "gc": System.gc(); System.out.println("collected"); break;
                case "end": System.exit(nr); break;
                default: System.out.println("alive");
            }
        }
    }
}
