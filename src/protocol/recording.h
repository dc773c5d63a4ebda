// A recording: everything one core of one process was told, when, and what it answered. Written by
// real processes (recorder.h), replayed by `mobula-sim --replay` to the same answers. One file for
// each life of a core:
//
// - 8 bytes "MOBREC\r\n"
// - frames: 4 bytes length (little endian) of what follows, 1 byte kind, then the rest:
//   - 'H': RecordingHeader, once, first
//   - 'I': time in ns (8 bytes, little endian), then the event as core_records.h encodes it
//   - 'O': the commands of the 'I' before it: for each its length (4 bytes) and its bytes
//   - 'S': why recording stopped before the process did, as text
//
// A file may end within a frame, or with an 'I': its process was killed. What is left out of events
// and commands stands in scrub.h. Values; a reader belongs to one thread.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/id.h"
#include "base/result.h"
#include "base/time.h"
#include "protocol/msgpack_stream.h"
#include "protocol/wire.h"

namespace mobula::internal {

inline constexpr std::uint32_t recording_format = 1;

// Of events and commands in recordings: a head is told its whole journal at once.
inline constexpr DecodeLimits recording_limits{1u << 30, 256u << 20, std::size_t{4} << 30};

struct RecordingHeader {
  std::uint32_t format = recording_format;
  std::uint32_t protocol = own_protocol.newest;
  std::string core;  // "head", "agent", "client" or "executor"
  std::string role;  // of the process: "head", "agent", "driver", "executor", …
  std::int64_t pid = 0;
  Hash128 incarnation;          // of the core; every one has a file of its own
  std::int64_t started_ms = 0;  // wall clock
  Bytes options;                // what the core was constructed with
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(
        field("format", &RecordingHeader::format), field("protocol", &RecordingHeader::protocol),
        field("core", &RecordingHeader::core), field("role", &RecordingHeader::role),
        field("pid", &RecordingHeader::pid), field("incarnation", &RecordingHeader::incarnation),
        field("started_ms", &RecordingHeader::started_ms),
        field("options", &RecordingHeader::options));
  }
  friend bool operator==(const RecordingHeader&, const RecordingHeader&) = default;
};

struct RecordedStep {
  Time at;
  Bytes event;
  // None: the process ended before they were written, which only the last step may lack.
  std::optional<std::vector<Bytes>> commands;
};

// ---- writing: bytes to append to a file --------------------------------------------------------

Bytes recording_begin(const RecordingHeader& header);
void append_input(Bytes& to, Time at, std::span<const std::byte> event);
void append_output(Bytes& to, std::span<const Bytes> commands);
void append_stop(Bytes& to, const std::string& why);

// ---- reading -----------------------------------------------------------------------------------

class RecordingReader {
 public:
  // Fails with `corrupt` for what is no recording, and with `invalid_argument` for one of another
  // format or another version of the protocol, which this build cannot replay.
  static Result<RecordingReader> open(const std::string& path);

  const RecordingHeader& header() const { return header_; }
  // The next step, or nothing at the end. `corrupt` for a file that no recorder has written.
  Result<std::optional<RecordedStep>> next();
  // How the file ends, once next() has given nothing; empty: with a whole step.
  const std::string& ending() const { return ending_; }

 private:
  struct Frame {
    char kind = 0;
    Bytes bytes;
  };

  RecordingReader() = default;
  Result<std::optional<Frame>> read_frame();

  std::ifstream file_;
  RecordingHeader header_;
  std::optional<Frame> ahead_;
  std::string ending_;
};

}  // namespace mobula::internal
