// What this machine's loopback network can do without Mobula, sealed as Mobula seals it. Each function
// measures for a second at most and ends every process it starts. Throws std::runtime_error.
#pragma once

#include "bench/measure.h"

namespace mobula::bench {

// One TCP connection between two processes, chunks of 1 MiB sealed by AES-256-GCM on one side and opened on
// the other, in GB/s.
Floor sealed_tcp_stream();
// ZeroMQ with CURVE over TCP: a round trip of a DEALER to a ROUTER, in microseconds.
Floor curve_round_trip();
// The same with so many messages on their way, in messages a second.
Floor curve_echo(int outstanding);

}  // namespace mobula::bench
