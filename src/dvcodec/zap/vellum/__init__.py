"""vellum: the finite state transducers in which bleve keeps its dictionaries, byte strings in order, each with a value.

Specification: ``github.com/blevesearch/vellum``, version 1 (encoder_v1.go, decoder_v1.go, builder.go, registry.go)::

    u64 1 (the version) | u64 type (0; nobody looks) | states | u64 number of keys | u64 address of the root

All numbers are little-endian. An address is an offset in the blob, at least 16. A state is known by the address of its
last byte, the head, and reads downwards from there. Address 0 is a state that is not written: final, final output 0, no
transitions. Written upwards, with [] for what may be absent::

    10cccccc  one transition   [output: O bytes] | delta: T bytes | pack | [input byte, if c = 0] | head
    11cccccc  the same, "next" [input byte, if c = 0] | head          to the state that ends just below; output 0
    0fnnnnnn  n transitions    [final output: O bytes, if f] | n outputs | n deltas | n input bytes | pack
                               | [n, if it is not 1..63; 1 means 256] | head

    pack   T << 4 | O, the bytes of every delta and of every output (0..8); O = 0: all outputs are 0
    delta  0: the target is the state at address 0; else: address of the state's lowest byte - address of the target
    c      1..63: a common input byte, see `states.COMMON`
    f      the state is final: a key ends here

Outputs, deltas and input bytes of n transitions are stored in reverse, so that a reader on its way down meets the input
bytes in ascending order. The value of a key is the sum, modulo 2**64, of the outputs on its way and of the final output
at its end. Every target is below its state, so there are no loops; but states are shared, and so a few hundred bytes
can spell more keys than anyone can count.

`states` is the form of one state, `reader` the dictionary (`bulk` and `walk` enumerate it, all at once and one by one),
`builder` writes it as Go does.
"""

from dvcodec.zap.vellum.block import KeyBlock
from dvcodec.zap.vellum.builder import build
from dvcodec.zap.vellum.reader import Fst

__all__ = ["Fst", "KeyBlock", "build"]
