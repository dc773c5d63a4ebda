// What this machine can do without Mobula: the physical bounds that figures are held against. Each
// function measures for a fraction of a second and ends every process it starts. Throws
// std::system_error where the system refuses.
#pragma once

#include "bench/measure.h"

namespace mobula::bench {

// Two processes that spin on one cache line: a round trip, in microseconds.
Floor spinning_round_trip();
// Two processes that sleep in futex() at one word, each bound to the processor given: a round trip, in microseconds.
Floor futex_round_trip(int here, int there);
// Two processes that sleep in read() on a pair of sockets: a round trip, in microseconds.
Floor socket_round_trip();
// fork, _exit and wait, in microseconds.
Floor fork_and_exit();
// memcpy from touched memory to a mapped, touched memfd, in GB/s: the bound of a put that copies.
Floor warm_memcpy_to_memfd();
// memcpy of 128 MiB from touched memory into memory that was just mapped, with huge pages, in GB/s: a copy as NumPy
// makes it.
Floor memcpy_to_fresh_pages();

}  // namespace mobula::bench
