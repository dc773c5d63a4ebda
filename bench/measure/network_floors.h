// Floors of this machine's loopback network without Mobula, with Mobula's encryption. Each function
// measures for at most a second and ends every process it starts.
// Thread: the main thread. Errors: std::runtime_error.
#pragma once

#include <cstddef>

#include "bench/measure/measure.h"

namespace mobula::bench {

// One TCP connection between two processes, with chunks of 1 MiB that one side encrypts and the
// other decrypts with AES-256-GCM, in GB/s.
Floor sealed_tcp_stream();
// Round trip of a ZeroMQ DEALER to a ROUTER with CURVE over TCP, in microseconds.
Floor curve_round_trip();
// The same with `outstanding` messages in flight, in messages per second.
Floor curve_echo(int outstanding);
// CPU time of both ends for 1 MiB from a ZeroMQ DEALER to a ROUTER with CURVE over TCP, in messages
// of 1 MiB with frames of `frame_bytes`, in microseconds.
Floor curve_frames(std::size_t frame_bytes);

}  // namespace mobula::bench
