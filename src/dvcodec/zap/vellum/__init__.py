"""vellum: the finite state transducers of bleve's dictionaries, which map byte strings in order to numbers.

Specification: ``github.com/blevesearch/vellum``, version 1 (encoder_v1.go, decoder_v1.go, builder.go, registry.go)::

    u64 1 (the version) | u64 type (0, not checked) | states | u64 number of keys | u64 address of the root

All numbers are little-endian. An address is an offset in the blob, at least 16. The address of a state is that of its
last byte, the head; readers go downwards from there. Address 0 is an implicit state: final, final output 0, no
transitions. In file order, with [] for optional parts::

    10cccccc  one transition   [output: O bytes] | delta: T bytes | pack | [input byte, if c = 0] | head
    11cccccc  the same, "next" [input byte, if c = 0] | head          to the state that ends just below; output 0
    0fnnnnnn  n transitions    [final output: O bytes, if f] | n outputs | n deltas | n input bytes | pack
                               | [n, if it is not 1..63; 1 means 256] | head

    pack   T << 4 | O, the bytes of every delta and of every output (0..8); O = 0: all outputs are 0
    delta  0: the target is the state at address 0; else: address of the state's lowest byte - address of the target
    c      1..63: a common input byte, see `states.COMMON`
    f      the state is final: a key ends there

Outputs, deltas and input bytes of n transitions are stored in reverse, so that a reader going downwards gets the input
bytes in ascending order. The value of a key is the sum, modulo 2**64, of the outputs of its transitions and the final
output of its last state. Every target is below its state, so there are no loops. But states are shared: a few hundred
bytes can encode an astronomic number of keys.

`states` reads and writes single states, `reader` is the dictionary, `builder` writes it as Go does.
"""

from dvcodec.zap.vellum.builder import build
from dvcodec.zap.vellum.reader import Fst, KeyBlock

__all__ = ["Fst", "KeyBlock", "build"]
