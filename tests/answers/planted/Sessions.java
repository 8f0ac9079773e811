// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

import java.util.ArrayList;
import java.util.List;

/** Keeps 40 arrays of 16 KiB a second in Java's own heap. */
class Sessions {
    private static final List<byte[]> KEPT = new ArrayList<>();

    public static void main(String[] arguments) throws InterruptedException {
        for (;;) {
            KEPT.add(new byte[16384]);
            if (KEPT.size() == 20)
                System.out.println("warm");
            Thread.sleep(25);
        }
    }
}
