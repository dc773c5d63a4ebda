#include "protocol/recording/recording.h"

#include <cstring>
#include <string_view>

#include "protocol/codec/codec.h"

namespace mobula::internal {
namespace {

constexpr std::string_view magic = "MOBREC\r\n";
// Exceeds the largest message of the protocol: a head receives its whole journal as one event.
constexpr std::uint32_t max_frame_bytes = 1u << 30;

template <class Number>
void append_number(Bytes& to, Number number) {
  for (std::size_t i = 0; i < sizeof number; ++i) {
    to.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(number) >> (8 * i)));
  }
}

template <class Number>
Number number_at(std::span<const std::byte> bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    number |= static_cast<std::uint64_t>(bytes[i]) << (8 * i);
  }
  return static_cast<Number>(number);
}

void append_bytes(Bytes& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

void begin_frame(Bytes& to, char kind, std::size_t size) {
  append_number(to, static_cast<std::uint32_t>(size + 1));
  to.push_back(static_cast<std::byte>(kind));
}

std::optional<std::vector<Bytes>> split_commands(std::span<const std::byte> bytes) {
  std::vector<Bytes> commands;
  while (!bytes.empty()) {
    if (bytes.size() < 4) return std::nullopt;
    const auto size = number_at<std::uint32_t>(bytes);
    bytes = bytes.subspan(4);
    if (size > bytes.size()) return std::nullopt;
    commands.emplace_back(bytes.begin(), bytes.begin() + size);
    bytes = bytes.subspan(size);
  }
  return commands;
}

}  // namespace

// ---- writing -----------------------------------------------------------------------------------

Bytes recording_begin(const RecordingHeader& header) {
  Bytes bytes;
  append_bytes(bytes, std::as_bytes(std::span(magic)));
  const Bytes encoded = encode(header);
  begin_frame(bytes, 'H', encoded.size());
  append_bytes(bytes, encoded);
  return bytes;
}

void append_input(Bytes& to, Time at, std::span<const std::byte> event) {
  begin_frame(to, 'I', 8 + event.size());
  append_number(to, at.ns());
  append_bytes(to, event);
}

void append_output(Bytes& to, std::span<const Bytes> commands) {
  std::size_t size = 0;
  for (const Bytes& each : commands) size += 4 + each.size();
  begin_frame(to, 'O', size);
  for (const Bytes& each : commands) {
    append_number(to, static_cast<std::uint32_t>(each.size()));
    append_bytes(to, each);
  }
}

void append_stop(Bytes& to, const std::string& why) {
  begin_frame(to, 'S', why.size());
  append_bytes(to, std::as_bytes(std::span(why)));
}

// ---- reading -----------------------------------------------------------------------------------

Result<RecordingReader> RecordingReader::open(const std::string& path) {
  RecordingReader reader;
  reader.file_.open(path, std::ios::binary);
  if (!reader.file_) return failure(ErrorCode::not_found, "cannot open the recording " + path);
  char begin[magic.size()] = {};
  reader.file_.read(begin, sizeof begin);
  if (std::string_view(begin, sizeof begin) != magic) {
    return failure(ErrorCode::corrupt, path + " is not a recording: its first bytes differ");
  }
  auto frame = reader.read_frame();
  if (!frame) return frame.error();
  if (!*frame || (*frame)->kind != 'H') {
    return failure(ErrorCode::corrupt,
                   path + " has no header: its process was killed at the start");
  }
  auto header = decode<RecordingHeader>((*frame)->bytes);
  if (!header) return failure(ErrorCode::corrupt, path + ": its header: " + header.error().text);
  reader.header_ = std::move(*header);
  const auto other = [&](const std::string& what, std::uint32_t there, std::uint32_t here) {
    return failure(ErrorCode::invalid_argument, path + " has version " + std::to_string(there) +
                                                    " of " + what + ", this build has " +
                                                    std::to_string(here) +
                                                    "; replay it with the build that wrote it");
  };
  if (reader.header_.format != recording_format) {
    return other("the format of recordings", reader.header_.format, recording_format);
  }
  if (reader.header_.protocol != own_protocol.newest) {
    return other("the protocol", reader.header_.protocol, own_protocol.newest);
  }
  return reader;
}

Result<std::optional<RecordingReader::Frame>> RecordingReader::read_frame() {
  if (ahead_) return std::exchange(ahead_, std::nullopt);
  std::byte begin[5];
  file_.read(reinterpret_cast<char*>(begin), sizeof begin);
  if (file_.gcount() == 0) return std::optional<Frame>();
  if (file_.gcount() < static_cast<std::streamsize>(sizeof begin)) {
    ending_ = "its last record is cut off";
    return std::optional<Frame>();
  }
  const auto size = number_at<std::uint32_t>(begin);
  if (size == 0 || size > max_frame_bytes) {
    return failure(ErrorCode::corrupt, "a record claims " + std::to_string(size) + " bytes");
  }
  Frame frame{static_cast<char>(begin[4]), {}};
  // Reads in blocks of 1 MiB, so that a false length cannot allocate memory.
  for (std::size_t left = size - 1; left > 0;) {
    const std::size_t step = std::min<std::size_t>(left, 1u << 20);
    const std::size_t had = frame.bytes.size();
    frame.bytes.resize(had + step);
    file_.read(reinterpret_cast<char*>(frame.bytes.data() + had),
               static_cast<std::streamsize>(step));
    if (file_.gcount() < static_cast<std::streamsize>(step)) {
      ending_ = "its last record is cut off";
      return std::optional<Frame>();
    }
    left -= step;
  }
  return std::optional<Frame>(std::move(frame));
}

Result<std::optional<RecordedStep>> RecordingReader::next() {
  auto input = read_frame();
  if (!input) return input.error();
  if (!*input) return std::optional<RecordedStep>();
  Frame& frame = **input;
  if (frame.kind == 'S') {
    ending_ = "recording stopped: " +
              std::string(reinterpret_cast<const char*>(frame.bytes.data()), frame.bytes.size());
    return std::optional<RecordedStep>();
  }
  if (frame.kind != 'I' || frame.bytes.size() < 8) {
    return failure(ErrorCode::corrupt, "a record of this kind is not allowed at this position");
  }
  RecordedStep step;
  step.at = Time::from_ns(number_at<std::int64_t>(frame.bytes));
  step.event.assign(frame.bytes.begin() + 8, frame.bytes.end());

  auto output = read_frame();
  if (!output) return output.error();
  if (!*output) {
    if (ending_.empty()) ending_ = "the commands of its last step are not in it";
    return std::optional<RecordedStep>(std::move(step));
  }
  if ((*output)->kind == 'S') {
    ahead_ = std::move(**output);
    return std::optional<RecordedStep>(std::move(step));
  }
  if ((*output)->kind != 'O') {
    return failure(ErrorCode::corrupt, "a step has no commands though more steps follow");
  }
  step.commands = split_commands((*output)->bytes);
  if (!step.commands) return failure(ErrorCode::corrupt, "a record of commands is malformed");
  return std::optional<RecordedStep>(std::move(step));
}

}  // namespace mobula::internal
