// Recording of one core: every event with its time, and the resulting commands. Real processes
// write it (recorder.h), and `mobula-sim --replay` must reproduce the same commands. Each life of a
// core has its own file.
// Thread: owner.
// Not: scrubbed parts, see scrub.h.
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
#include "protocol/codec/msgpack_stream.h"
#include "protocol/codec/wire.h"

namespace mobula::internal {

// File format:
//  - 8 bytes "MOBREC\r\n"
//  - frames: 4 bytes length (little endian) of the rest, 1 byte kind, then the rest:
//    - 'H': RecordingHeader, once, first
//    - 'I': time in ns (8 bytes, little endian), then the event as core_records.h encodes it
//    - 'O': the commands of the 'I' before it: for each its length (4 bytes) and its bytes
//    - 'S': reason that recording stopped before the process did, as text
// A file may end within a frame, or with an 'I', if its process was killed.

inline constexpr std::uint32_t recording_format = 1;

// Limits of events and commands. A head receives its whole journal as one event.
inline constexpr DecodeLimits recording_limits{1u << 30, 256u << 20, std::size_t{4} << 30};

struct RecordingHeader {
  std::uint32_t format = recording_format;
  std::uint32_t protocol = own_protocol.newest;
  std::string core;  // "head", "agent", "client" or "executor"
  std::string role;  // role of the process: "head", "agent", "driver", "executor", …
  std::int64_t pid = 0;
  Hash128 incarnation;          // incarnation of the core
  std::int64_t started_ms = 0;  // wall clock
  Bytes options;                // encoded constructor options of the core
  MOBULA_FIELDS(format, protocol, core, role, pid, incarnation, started_ms, options);
  friend bool operator==(const RecordingHeader&, const RecordingHeader&) = default;
};

struct RecordedStep {
  Time at;
  Bytes event;
  // Empty if the process exited before they were written, which only the last step allows.
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
  // Errors: `corrupt` if the file is not a recording; `invalid_argument` for another format or
  // another protocol version, which this build cannot replay.
  static Result<RecordingReader> open(const std::string& path);

  const RecordingHeader& header() const { return header_; }
  // The next step, or nothing at the end. `corrupt` for a file that no recorder wrote.
  Result<std::optional<RecordedStep>> next();
  // Describes an incomplete end of the file, once next() has returned nothing; empty if the last
  // step is complete.
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
