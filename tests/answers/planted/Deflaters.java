// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.Deflater;

/** Keeps ten deflaters a second that nobody ends, and a direct buffer for each hundredth of their memory. */
class Deflaters {
    private static final List<Object> KEPT = new ArrayList<>();

    private static void compress(byte[] text) {
        Deflater deflater = new Deflater();
        deflater.setInput(text);
        deflater.finish();
        deflater.deflate(new byte[1024]);
        KEPT.add(deflater);
    }

    public static void main(String[] arguments) throws InterruptedException {
        for (;;) {
            compress("some text that is compressed".getBytes());
            KEPT.add(ByteBuffer.allocateDirect(2500));
            if (KEPT.size() == 20)
                System.out.println("warm");
            Thread.sleep(100);
        }
    }
}
