// Floors: results of this machine without Mobula, the physical limits next to the figures. Each
// function measures for a fraction of a second and ends every process it starts.
// Thread: the main thread. Errors: std::system_error.
#pragma once

#include "bench/measure/measure.h"

namespace mobula::bench {

// Round trip between two processes that spin on one cache line, in microseconds.
Floor spinning_round_trip();
// Round trip between two processes that block in futex() on one word, each bound to the given
// processor, in microseconds.
Floor futex_round_trip(int here, int there);
// Round trip between two processes that block in read() on a socket pair, in microseconds.
Floor socket_round_trip();
// fork, _exit, and wait, in microseconds.
Floor fork_and_exit();
// memcpy from resident memory to a mapped, resident memfd, in GB/s: the limit of a put that copies.
Floor warm_memcpy_to_memfd();
// memcpy of 128 MiB from resident memory into newly mapped memory with huge pages, in GB/s: a copy
// as NumPy makes it.
Floor memcpy_to_fresh_pages();

}  // namespace mobula::bench
